"""`one_hot`: a vector for each value of a category."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...core.column import Column, read_only
from ._column_conversion import ColumnConversion
from ._value_numbers import ValueNumbers, check_values
from .index_of import check_column_name

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class OneHot(ColumnConversion):
    kind: ClassVar[str] = "one_hot"

    column: str
    values: tuple[Hashable, ...] = field(kw_only=True)
    numbers: ValueNumbers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_column_name(self.column)
        object.__setattr__(self, "numbers", ValueNumbers(self.values))

    def converted(self) -> Sequence[str]:
        return [self.column]

    def convert(self, name: str, column: Column) -> Column:
        numbers = self.numbers.of(column, len(self.values))
        vectors = np.zeros((len(numbers), len(self.values) + 1), np.float32)
        vectors[np.arange(len(numbers)), numbers] = 1
        return read_only(np.ascontiguousarray(vectors[:, :-1]))


def one_hot(pipe: Pipe[T], /, column: str, *, values: Sequence[Hashable]) -> Pipe[T]:
    """Replace each value of a column by a vector with a 1 at the value's place in a list of values, and zeros.

    Element: a row with the same columns; this one has float32 arrays as long as `values`. Nulls, and values that
    `values` lacks, become zeros alone. Order and length are the input's. Indexed if the input is. State: none.

    Args:
        column, values: as in `index_of`.

    Raises:
        ArgumentError, ArgumentTypeError, PlanError, DataError: as in `index_of`.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> pipe = fp.from_table(pa.table({"city": ["Rome", "Oslo", None]}))
        >>> pipe.one_hot("city", values=["Oslo", "Rome"]).batch(3)[0]["city"].tolist()
        [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    """
    return pipe.then(OneHot(column, values=check_values(values)))
