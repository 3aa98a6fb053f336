"""`normalize_text`: one form for equal text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, cast
from unicodedata import normalize

import numpy as np

from ..core.arrow import arrow_array, arrow_scalar
from ..core.checks import check_choice
from ..core.lazy import pa, pc
from ..core.rows import Column
from ..errors import UnfitError
from ._column_operator import ColumnConversion, check_column_names, type_name

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"] | None


def normalize_text(
    pipe: Pipe[T], /, columns: str | Sequence[str], *, form: Form = "NFKC", lower: bool = False, strip: bool = True
) -> Pipe[T]:
    r"""Bring text into one form, so that values that look alike are equal.

    Element: a row with the same columns; nulls stay null. Order and length are the input's. Indexed if the input is.
    State: none.

    Args:
        columns: the name of a column, or several.
        form: the form of Unicode (https://unicode.org/reports/tr15/). "NFKC" also replaces ligatures, full-width
            letters and non-breaking spaces with the usual ones; None leaves the letters as they are.
        lower: makes letters small.
        strip: removes white space at both ends.

    Raises:
        PlanError: there is no such column, or it has no text. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp
        >>> names = fp.from_sequence([{"name": " Fish"}, {"name": "\ufb01sh"}])  # the second has a ligature
        >>> [row["name"] for row in names.normalize_text("name", lower=True)]
        ['fish', 'fish']
    """
    return pipe.then(NormalizeText(check_column_names(columns), form=form, lower=lower, strip=strip))


@dataclass(frozen=True, eq=False, repr=False)
class NormalizeText(ColumnConversion):
    kind: ClassVar[str] = "normalize_text"

    names: tuple[str, ...]
    form: Form = field(default="NFKC", kw_only=True)
    lower: bool = field(default=False, kw_only=True)
    strip: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_choice("form", self.form, ("NFC", "NFD", "NFKC", "NFKD", None))

    def converted(self) -> Sequence[str]:
        return self.names

    def convert(self, name: str, column: Column) -> Column:
        text: Any = column
        if not isinstance(column, np.ndarray) and isinstance(column.type, pa.DictionaryType):
            text = cast("Any", column).dictionary_decode()
        if isinstance(text, np.ndarray) or not (
            pa.types.is_string(text.type) or pa.types.is_large_string(text.type) or pa.types.is_null(text.type)
        ):
            raise UnfitError(f"is of type {type_name(column)}, and text is needed")
        if pa.types.is_null(text.type):
            return cast("Column", text)
        if self.form is not None:
            text = _normalized(text, self.form)
        if self.lower:
            text = pc.utf8_lower(text)
        return cast("Column", pc.utf8_trim_whitespace(text) if self.strip else text)


def _normalized(text: Any, form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> Any:
    """Text in a form of Unicode, by Python: `pc.utf8_normalize` composes no characters before Arrow 26."""
    changes = pc.invert(pc.string_is_ascii(text)).fill_null(arrow_scalar(False))
    values = [normalize(form, value) for value in text.filter(changes).to_pylist()]
    return pc.replace_with_mask(text, changes, arrow_array(values, text.type))
