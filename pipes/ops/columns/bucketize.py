"""`bucketize`: the number of the interval that a number lies in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

import numpy as np

from ...core.column import Column
from ...errors import ArgumentError, ArgumentTypeError, with_call_site
from ...stats.quantile_statistics import Quantiles
from ._column_conversion import ColumnConversion, map_numbers
from ._missing_values import missing_mask, numbers_and_nulls
from .index_of import check_column_name

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Bucketize(ColumnConversion):
    kind: ClassVar[str] = "bucketize"

    column: str
    boundaries: tuple[float, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        check_column_name(self.column)

    def converted(self) -> Sequence[str]:
        return [self.column]

    def convert(self, name: str, column: Column) -> Column:
        import pyarrow as pa

        boundaries = np.array(self.boundaries)
        numbers = map_numbers(column, lambda values: np.searchsorted(boundaries, values, side="right"))
        missing = missing_mask(column)
        if missing is None or (not isinstance(column, np.ndarray) and pa.types.is_null(column.type)):
            return numbers
        values = numbers if isinstance(numbers, np.ndarray) else numbers_and_nulls(numbers)[0]
        return cast("Column", pa.array(values, mask=missing))


def check_boundaries(value: object) -> tuple[float, ...]:
    """The argument `boundaries`: numbers that rise, or fitted quantiles."""
    if isinstance(value, Quantiles):
        value = sorted({*value.values.values()})  # of frequent values there are several
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise ArgumentTypeError(with_call_site(f"`boundaries` must be a list of numbers but got: {value!r:.200}"))
    try:
        numbers = np.array(value, np.float64)
    except (ValueError, TypeError):
        raise ArgumentTypeError(
            with_call_site(f"`boundaries` must be a list of numbers but got: {value!r:.200}")
        ) from None
    if numbers.ndim != 1 or not len(numbers) or not (numbers[1:] > numbers[:-1]).all() or np.isnan(numbers).any():
        raise ArgumentError(with_call_site(f"`boundaries` must be numbers that rise but got: {value!r:.200}"))
    return tuple(numbers.tolist())


def bucketize(pipe: Pipe[T], /, column: str, *, boundaries: Sequence[float] | Quantiles) -> Pipe[T]:
    """Replace each number of a column by the number of the interval that it lies in.

    Element: a row with the same columns; this one has int64. Interval 0 lies below the first of n boundaries, and
    interval n from the last one on; interval i includes its lower boundary, i - 1. What is missing, NaN too, becomes a
    null. In a column of arrays, each number is replaced; NaN then becomes n. Order and length are the input's. Indexed
    if the input is. State: none.

    Args:
        column: the name of the column.
        boundaries: numbers that rise, or a fitted `fp.stats.quantiles()`, for intervals with about equally many rows.

    Raises:
        ArgumentError, ArgumentTypeError: `boundaries` are no numbers, or do not rise.
        PlanError: there is no such column, or it has no numbers. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp
        >>> ages = fp.from_sequence([{"age": 3}, {"age": 18}, {"age": 70}])
        >>> [row["age"] for row in ages.bucketize("age", boundaries=[18, 65])]
        [0, 1, 2]
    """
    return pipe.then(Bucketize(column, boundaries=check_boundaries(boundaries)))
