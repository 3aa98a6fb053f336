"""Logs columns that became text because one of their values is no number or date."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text.chunks import shorten

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("feedpipe")

MIN_OTHERS = 10
"""So many other values have to be numbers, or dates."""

_FIRST_ROWS = 64
_TYPES = {  # by the type that the column would have had: what its values are called, and how they look
    "int64": ("number", r"^-?\d{1,18}$"),
    "float64": ("number", r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"),
    "date32": ("date", r"^\d{4}-\d\d-\d\d$"),
}


class OddValue(NamedTuple):
    """The only value of a column of text that is not of `type`, and its first row."""

    value: str
    row: int
    type: str


def log_odd_values(table: pa.Table, nulls: Sequence[str], place: Callable[[int], str]) -> None:
    """Log each column with an odd value, once in a process.

    Args:
        table: columns whose types were inferred.
        nulls: texts that mean a missing value.
        place: the file and the line of a row.
    """
    import pyarrow as pa

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type) and (odd := odd_value(column, nulls)) is not None:
            noun, _ = _TYPES[odd.type]
            _log_once(
                f"{place(odd.row)}, column {name!r}: {shorten(odd.value)} is no {noun}, and all other values that were "
                f"read for the types are {noun}s, so the column is text; `schema={{{name!r}: {odd.type!r}}}` makes it "
                "an error, `null_values=` names what stands for no value"
            )


def odd_value(column: Any, nulls: Sequence[str]) -> OddValue | None:
    """The odd value of a column of text; None if it has none, or several different ones."""
    import pyarrow.compute as pc

    for kind, (_, pattern) in _TYPES.items():
        if len(_others(column.slice(0, _FIRST_ROWS), pattern, nulls)) > 1:  # most text ends here, at no cost
            continue
        others = _others(column, pattern, nulls)
        fits: Any = pc.match_substring_regex(column, pattern)
        if len(others) == 1 and pc.sum(fits).as_py() >= MIN_OTHERS:
            return OddValue(others[0].as_py(), pc.index(column, others[0]).as_py(), kind)
    return None


def _others(column: Any, pattern: str, nulls: Sequence[str]) -> Any:
    """The different values that do not look like `pattern` and mean no missing value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values: Any = pc.unique(column)
    fits = pc.or_(pc.match_substring_regex(values, pattern), pc.is_in(values, pa.array(nulls, values.type)))
    return values.filter(pc.invert(fits))


@functools.lru_cache(maxsize=1024)
def _log_once(message: str) -> None:
    log.warning(message)
