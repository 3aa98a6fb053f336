"""`index_of`: the place of each value in a vocabulary."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.checks import check_int
from ...core.column import Column, read_only
from ...errors import ArgumentTypeError, with_call_site
from ._column_conversion import ColumnConversion
from ._value_numbers import ValueNumbers, check_values

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class IndexOf(ColumnConversion):
    kind: ClassVar[str] = "index_of"

    column: str
    values: tuple[Hashable, ...] = field(kw_only=True)
    unknown: int = field(default=-1, kw_only=True)
    numbers: ValueNumbers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_column_name(self.column)
        object.__setattr__(self, "unknown", check_int("unknown", self.unknown, least=-1))
        object.__setattr__(self, "numbers", ValueNumbers(self.values))

    def converted(self) -> Sequence[str]:
        return [self.column]

    def convert(self, name: str, column: Column) -> Column:
        return read_only(self.numbers.of(column, self.unknown))


def check_column_name(value: object) -> None:
    """The argument `column`: a name."""
    if not isinstance(value, str):
        raise ArgumentTypeError(with_call_site(f"`column` must be the name of a column but got: {value!r}"))


def index_of(pipe: Pipe[T], /, column: str, *, values: Sequence[Hashable], unknown: int = -1) -> Pipe[T]:
    """Replace each value of a column by its place in a list of values, such as a vocabulary: the index of an embedding.

    Element: a row with the same columns; this one has int64 without nulls. Order and length are the input's. Indexed if
    the input is. State: none.

    Args:
        column: the name of the column.
        values: different values of one type, or a fitted `fp.stats.vocabulary()`, whose most frequent value is first.
        unknown: stands for nulls, and for values that `values` lacks; >= -1.

    Raises:
        ArgumentError, ArgumentTypeError: `values` is empty, has a value twice, or values of several types.
        PlanError: there is no such column, or it is of another type than the values. If only a run can tell, a
            `DataError`.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> pipe = fp.from_table(pa.table({"city": ["Rome", "Oslo", None, "Lima"]}))
        >>> [row["city"] for row in pipe.index_of("city", values=["Oslo", "Rome"])]
        [1, 0, -1, -1]
    """
    return pipe.then(IndexOf(column, values=tuple(check_values(values)), unknown=unknown))
