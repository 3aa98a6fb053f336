"""`index_of`, `one_hot` and `bucketize`: values as numbers or vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array
from ..core.checks import check_int
from ..core.lazy import pa
from ..core.process import PerProcess
from ..core.rows import Column, infer_array, is_grid, read_only, to_arrow
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ..stats.statistics import Quantiles
from ._column_operator import ColumnConversion, map_numbers, missing_mask, numbers_and_nulls, type_name
from ._shared import check_rising

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def index_of(pipe: Pipe[T], /, column: str, *, values: Sequence[Hashable], unknown: int = -1) -> Pipe[T]:
    """Replace each value of a column by its place in a list of values, such as a vocabulary: the index of an embedding.

    Element: a row with the same columns; this one has int64 without nulls. Order and length are the input's. Indexed if
    the input is. State: none.

    Args:
        column: the name of the column.
        values: different values of one type, or a fitted `fp.stats.vocabulary()`, whose most frequent value is first.
        unknown: the number of nulls, and of values that `values` lacks; >= -1.

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


@dataclass(frozen=True, eq=False, repr=False)
class ValueConversion(ColumnConversion):
    """Replaces values by what their places in a list of values say."""

    column: str
    values: tuple[Hashable, ...] = field(kw_only=True)
    numbers: ValueNumbers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_column_name(self.column)
        object.__setattr__(self, "numbers", ValueNumbers(self.values))

    def converted(self) -> Sequence[str]:
        return [self.column]


@dataclass(frozen=True, eq=False, repr=False)
class IndexOf(ValueConversion):
    kind: ClassVar[str] = "index_of"

    unknown: int = field(default=-1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "unknown", check_int("unknown", self.unknown, least=-1))

    def convert(self, name: str, column: Column) -> Column:
        return read_only(self.numbers.of(column, self.unknown))


def check_column_name(value: object) -> None:
    """Check the argument `column`: a name."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"`column` must be the name of a column but got: {value!r}")


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


class OneHot(ValueConversion):
    kind: ClassVar[str] = "one_hot"

    def convert(self, name: str, column: Column) -> Column:
        numbers = self.numbers.of(column, len(self.values))
        vectors = np.zeros((len(numbers), len(self.values) + 1), np.float32)
        vectors[np.arange(len(numbers)), numbers] = 1
        return read_only(np.ascontiguousarray(vectors[:, :-1]))


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


@dataclass(frozen=True, eq=False, repr=False)
class Bucketize(ColumnConversion):
    kind: ClassVar[str] = "bucketize"

    column: str
    boundaries: tuple[float, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        check_column_name(self.column)

    def converted(self) -> Sequence[str]:
        return [self.column]

    def convert(self, name: str, column: Column) -> Column:
        boundaries = np.array(self.boundaries)
        numbers = map_numbers(column, lambda values: np.searchsorted(boundaries, values, side="right"))
        missing = missing_mask(column)
        if missing is None or (not isinstance(column, np.ndarray) and pa.types.is_null(column.type)):
            return numbers
        values = numbers if isinstance(numbers, np.ndarray) else numbers_and_nulls(numbers)[0]
        return cast("Column", arrow_array(values, missing=missing))


def check_boundaries(value: object) -> tuple[float, ...]:
    """Check the argument `boundaries`: numbers that rise, or fitted quantiles."""
    if isinstance(value, Quantiles):
        value = sorted({*value.values.values()})  # of frequent values there are several
    check_rising("boundaries", value)
    return tuple(np.array(value, np.float64).tolist())


Ints = npt.NDArray[np.int64]


class ValueNumbers:
    """Numbers the values of a list from 0. Each distinct value of a block is looked up once."""

    def __init__(self, values: Sequence[Hashable]) -> None:
        self._values = values
        self._numbers: PerProcess[dict[Hashable, int]] = PerProcess()

    def of(self, column: Column, unknown: int) -> Ints:
        """Return the number of each value of the column; `unknown` for nulls and for values that the list lacks.

        Raises:
            UnfitError: values of this type are never in the list.
        """
        if column.ndim > 1 if isinstance(column, np.ndarray) else is_grid(column):
            raise UnfitError(f"is of type {type_name(column)}, and single values are needed")
        self._check_type(column)
        encoded = cast("Any", to_arrow(column))
        if not hasattr(encoded, "dictionary"):
            encoded = encoded.dictionary_encode()
        number = self._numbers.get(self._make_numbers).get
        numbers = [number(value, unknown) for value in encoded.dictionary.to_pylist()]
        places: Any
        places, nulls = numbers_and_nulls(encoded.indices)
        if nulls is not None:
            places = np.where(nulls, len(numbers), places)
        result: Ints = np.array([*numbers, unknown], np.int64)[places]
        return result

    def _make_numbers(self) -> dict[Hashable, int]:
        return {value: number for number, value in enumerate(self._values)}

    def _check_type(self, column: Column) -> None:
        kind: Any = pa.from_numpy_dtype(column.dtype) if isinstance(column, np.ndarray) else column.type
        kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
        family, own = _family(kind), _family(infer_array([self._values[0]]).type)
        if family not in (own, "null"):
            raise UnfitError(f"is of type {kind}, and `values` has {own}, such as {self._values[0]!r}; `.cast` it")


def check_values(value: object) -> tuple[Hashable, ...]:
    """Check the argument `values`: at least one, all different and of one type."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ArgumentTypeError(f"`values` must be a list of values but got: {value!r:.200}")
    values: tuple[Any, ...] = tuple(item.item() if isinstance(item, np.generic) else item for item in value)
    if not values:
        raise ArgumentError("`values` must have at least one value but got: []")
    try:
        repeated = next((item for item, count in Counter(values).items() if count > 1), None)
    except TypeError:  # not hashable
        raise ArgumentTypeError(f"`values` must be hashable but got: {value!r:.200}") from None
    array: Any = None
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        array = infer_array([*values])
    if array is None or array.null_count or any(item != item for item in values):
        raise ArgumentTypeError(f"`values` must be of one type, without None and NaN, but got: {value!r:.200}")
    if repeated is not None:
        raise ArgumentError(f"`values` must be different but has {repeated!r} twice")
    return values


def _family(kind: Any) -> str:
    """Return a word for the values that values of this type can be equal to."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_timestamp(kind):
        return "times" if kind.tz is None else "times with a zone"
    if types.is_duration(kind):
        return "durations"
    return "dates" if types.is_date(kind) else str(kind)
