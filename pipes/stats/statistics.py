"""`mean_std`, `min_max`, `missing` and `quantiles`: statistics of columns of numbers, and their protocol."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.lazy import pa
from ..core.rows import Column, grid, is_grid
from ..errors import ArgumentError, ArgumentTypeError, UnfitError

S = TypeVar("S", bound="Summary")

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]  # floats, or whole numbers


def mean_std() -> Statistic[Any]:
    """The mean and the standard deviation of numbers, for `standardize`."""
    return MeanStdStatistic()


def min_max() -> Statistic[Any]:
    """The smallest and the largest number, for `scale`."""
    return MinMaxStatistic()


def missing() -> Statistic[Any]:
    """The number of rows without a value. All other statistics count these rows too."""
    return MissingStatistic()


def quantiles(q: Sequence[float] = (0.01, 0.25, 0.5, 0.75, 0.99)) -> Statistic[Any]:
    """Values below which given shares of the numbers lie, for `clip` and `bucketize`.

    They are exact, as `numpy.quantile` computes them, for up to 4,096 rows. Of more rows, the share that lies below a
    value is right to about 0.001.

    Args:
        q: the shares, which rise, from 0 to 1.
    """
    if isinstance(q, (str, bytes)) or not isinstance(q, (Sequence, np.ndarray)):
        raise ArgumentTypeError(f"`q` must be a list of shares but got: {q!r}")
    shares = tuple(map(float, q))
    if not shares or any(not 0 <= share <= 1 for share in shares) or sorted(set(shares)) != list(shares):
        raise ArgumentError(f"`q` must be shares between 0 and 1 that rise but got: {q!r}")
    return QuantilesStatistic(shares)


class Summary(ABC):
    """A small summary of some rows of a column, which joins with summaries of other rows."""

    nbytes: int = 0
    """Its memory, if that grows with the rows."""

    @classmethod
    @abstractmethod
    def merged(cls, parts: Sequence[Any]) -> Summary:
        """The summary of the rows of all parts: one or more summaries of this type.

        Raises:
            UnfitError: the parts have values of different types.
        """

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """The summary as plain values, for other ranks."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """The summary of which `to_json` made these values."""


class Fitted(ABC):
    """The result of `fit` for a column: a frozen dataclass of plain values."""

    kind: ClassVar[str]  # the name of the function of `fp.stats`

    def to_json(self) -> dict[str, object]:
        """The fields as JSON has them."""
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in vars(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Fitted:
        """The result of which `to_json` made these values."""
        own = {field.name: values[field.name] for field in fields(cast("Any", cls))}
        return cls(**{name: np.array(v, np.float64) if isinstance(v, list) else v for name, v in own.items()})


class Statistic(ABC, Generic[S]):
    """A question to `fit` about a column: a frozen dataclass of the arguments."""

    kind: ClassVar[str]
    summary_type: ClassVar[type[Summary]]

    @abstractmethod
    def summary(self, column: Column) -> S:
        """The summary of the values of a column.

        Raises:
            UnfitError: the column is of a type that does not have this statistic.
        """

    @abstractmethod
    def result(self, summary: S) -> Fitted:
        """The answer, from the summary of all rows.

        Raises:
            UnfitError: there is no value.
        """


# Moments and extremes


@dataclass(frozen=True)
class MeanStd(Fitted):
    """The moments of a column of numbers; of a column of arrays, those of each number in the array.

    Attributes:
        rows: the number of rows.
        missing: the number of rows without a value.
        mean: the average.
        std: the standard deviation of the population.
    """

    kind: ClassVar[str] = "mean_std"

    rows: int
    missing: int
    mean: Any
    std: Any

    def inverse(self, values: Any) -> Any:
        """The values before `standardize`, as an array or a tensor."""
        return values * like(values, spread(self.std)) + like(values, self.mean)


@dataclass(frozen=True)
class MinMax(Fitted):
    """The smallest and the largest number; of a column of arrays, those of each number in the array.

    Attributes:
        rows: the number of rows.
        missing: the number of rows without a value.
        min: the smallest number.
        max: the largest number.
    """

    kind: ClassVar[str] = "min_max"

    rows: int
    missing: int
    min: Any
    max: Any

    def inverse(self, values: Any, *, low: float = 0.0, high: float = 1.0) -> Any:
        """The values before `scale(low=low, high=high)`, as an array or a tensor."""
        width = like(values, spread(np.subtract(self.max, self.min)))
        return (values - low) / (high - low) * width + like(values, self.min)


@dataclass(frozen=True)
class Missing(Fitted):
    """The number of rows without a value.

    Attributes:
        rows: the number of rows.
        missing: the number of rows with a null or NaN.
    """

    kind: ClassVar[str] = "missing"

    rows: int
    missing: int


class NumberSummary(Summary):
    """Counts of rows and of those without a value; and of the others the moments or extremes, by name."""

    def __init__(self, rows: int, missing: int, **arrays: Numbers) -> None:
        self.rows = rows
        self.missing = missing
        self.arrays = arrays

    @property
    def count(self) -> int:
        return self.rows - self.missing

    def to_json(self) -> dict[str, object]:
        return {"rows": self.rows, "missing": self.missing, **{n: a.tolist() for n, a in self.arrays.items()}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NumberSummary:
        arrays = {name: np.array(value) for name, value in values.items()}
        return cls(int(arrays.pop("rows")), int(arrays.pop("missing")), **arrays)

    @classmethod
    def merged(cls, parts: Sequence[NumberSummary]) -> NumberSummary:
        filled = [part for part in parts if part.count] or parts[:1]
        shapes = {array.shape for part in filled for array in part.arrays.values()}
        if len(shapes) > 1:
            raise UnfitError(f"has arrays of several shapes: {', '.join(map(str, sorted(shapes)))}")
        names = dict.fromkeys(name for part in filled for name in part.arrays)
        stacks = {name: np.stack([part.arrays[name] for part in filled if name in part.arrays]) for name in names}
        joined = {name: cls._join(name, stack) for name, stack in stacks.items()}
        return cls(sum(part.rows for part in parts), sum(part.missing for part in parts), **joined)

    @classmethod
    def _join(cls, name: str, stack: Numbers) -> Numbers:
        """The array of all parts: the sum of theirs, unless a subclass joins them in another way."""
        return np.asarray(stack.sum(axis=0))


class Moments(NumberSummary):
    """Sums of numbers and of their squares, exact by their digits."""

    @classmethod
    def of(cls, numbers: Floats, missing: int = 0) -> Moments:
        """The moments of finite numbers."""
        return cls(len(numbers) + missing, missing, **digit_sums(numbers))

    def mean_and_std(self) -> tuple[Floats, Floats]:
        """The mean and the standard deviation: exact but for the last rounding."""
        totals = zip(_totals(self.arrays, "x"), _totals(self.arrays, "q"), strict=True)
        both = np.array([_mean_and_std(self.count, x, q) for x, q in totals], np.float64).reshape(-1, 2)
        shape = self.arrays["x0"].shape
        return both[:, 0].reshape(shape), both[:, 1].reshape(shape)


class Extremes(NumberSummary):
    """The smallest and the largest number."""

    @classmethod
    def _join(cls, name: str, stack: Numbers) -> Numbers:
        return np.asarray(stack.min(axis=0) if name == "min" else stack.max(axis=0))


@dataclass(frozen=True)
class MeanStdStatistic(Statistic[Moments]):
    kind: ClassVar[str] = "mean_std"
    summary_type: ClassVar[type[Summary]] = Moments

    def summary(self, column: Column) -> Moments:
        return Moments.of(*present_numbers(column))

    def result(self, summary: Moments) -> MeanStd:
        check_filled(summary.count, summary.rows)
        mean, std = summary.mean_and_std()
        return MeanStd(summary.rows, summary.missing, item(mean), item(std))


@dataclass(frozen=True)
class MinMaxStatistic(Statistic[NumberSummary]):
    kind: ClassVar[str] = "min_max"
    summary_type: ClassVar[type[Summary]] = Extremes

    def summary(self, column: Column) -> NumberSummary:
        numbers, missing = present_numbers(column)
        nothing = np.zeros(numbers.shape[1:])
        low, high = (numbers.min(axis=0), numbers.max(axis=0)) if len(numbers) else (nothing, nothing)
        return Extremes(len(column), missing, min=np.asarray(low), max=np.asarray(high))

    def result(self, summary: NumberSummary) -> MinMax:
        check_filled(summary.count, summary.rows)
        low, high = summary.arrays["min"], summary.arrays["max"]
        return MinMax(summary.rows, summary.missing, item(low), item(high))


@dataclass(frozen=True)
class MissingStatistic(Statistic[NumberSummary]):
    kind: ClassVar[str] = "missing"
    summary_type: ClassVar[type[Summary]] = NumberSummary

    def summary(self, column: Column) -> NumberSummary:
        return NumberSummary(len(column), missing_rows(column))

    def result(self, summary: NumberSummary) -> Missing:
        return Missing(summary.rows, summary.missing)


# Quantiles


MAX_POINTS = 4096
"""The most values that are kept unchanged."""
CLUSTERS = 2000
"""The number of clusters that more values are joined to."""


@dataclass(frozen=True)
class Quantiles(Fitted):
    """Some quantiles of a column of numbers: `quantiles[0.5]` is the median.

    Attributes:
        values: by the share of rows below; `bucketize` takes them as boundaries.
        rows: the number of rows.
        missing: the number of rows without a value.
    """

    kind: ClassVar[str] = "quantiles"

    values: Mapping[float, float]
    rows: int
    missing: int

    def __getitem__(self, share: float) -> float:
        if share not in self.values:
            raise KeyError(f"{share!r} is none of the quantiles that were fitted: {', '.join(map(repr, self.values))}")
        return self.values[share]

    def to_json(self) -> dict[str, object]:
        return {"rows": self.rows, "missing": self.missing, "values": [list(pair) for pair in self.values.items()]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Quantiles:
        return cls(dict(values["values"]), values["rows"], values["missing"])


class QuantileSketch(Summary):
    """Sorted points with weights: single values, or the means of clusters of neighbours.

    Clusters are as in the t-digest of Dunning and Ertl (Computing Extremely Accurate Quantiles Using t-Digests, 2019):
    small at both ends, where quantiles of outliers lie, and rebuilt all at once when there are too many points.
    """

    def __init__(self, rows: int, points: Floats, weights: Floats, bounds: tuple[float, float]) -> None:
        self.rows = rows
        self.points = points
        self.weights = weights
        self.bounds = bounds

    @staticmethod
    def of(rows: int, numbers: Floats) -> QuantileSketch:
        bounds = (float(numbers.min()), float(numbers.max())) if len(numbers) else (np.inf, -np.inf)
        return QuantileSketch.joined(rows, numbers, np.ones(len(numbers)), bounds)

    @staticmethod
    def joined(rows: int, points: Floats, weights: Floats, bounds: tuple[float, float]) -> QuantileSketch:
        """The sketch of points in any order."""
        order = np.argsort(points, kind="stable")
        points, weights = points[order], weights[order]
        if len(points) > MAX_POINTS:
            shares = (np.cumsum(weights) - weights / 2) / weights.sum()
            places = np.floor((np.arcsin(2 * shares - 1) / np.pi + 0.5) * CLUSTERS)
            first = np.flatnonzero(np.diff(places, prepend=-1))
            sums = np.add.reduceat(weights, first)
            points, weights = np.add.reduceat(points * weights, first) / sums, sums
        return QuantileSketch(rows, points, weights, bounds)

    @classmethod
    def merged(cls, parts: Sequence[QuantileSketch]) -> QuantileSketch:
        bounds = min(part.bounds[0] for part in parts), max(part.bounds[1] for part in parts)
        points = np.concatenate([part.points for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return cls.joined(sum(part.rows for part in parts), points, weights, bounds)

    @property
    def count(self) -> int:
        return round(float(self.weights.sum()))

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Values between the points by their ranks, as `numpy.quantile` computes them of single values."""
        middles = np.cumsum(self.weights) - self.weights / 2
        ranks = [0.5, *middles, self.count - 0.5]
        values = [self.bounds[0], *self.points, self.bounds[1]]
        quantiles: list[float] = np.interp(np.array(shares) * (self.count - 1) + 0.5, ranks, values).tolist()
        return quantiles

    def to_json(self) -> dict[str, object]:
        points, weights = self.points.tolist(), self.weights.tolist()
        return {"rows": self.rows, "points": points, "weights": weights, "bounds": self.bounds if points else None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> QuantileSketch:
        low, high = values["bounds"] or (np.inf, -np.inf)
        return cls(values["rows"], np.array(values["points"]), np.array(values["weights"]), (low, high))


@dataclass(frozen=True)
class QuantilesStatistic(Statistic[QuantileSketch]):
    kind: ClassVar[str] = "quantiles"
    summary_type: ClassVar[type[Summary]] = QuantileSketch

    shares: tuple[float, ...]

    def summary(self, column: Column) -> QuantileSketch:
        numbers, _ = present_numbers(column)
        if numbers.ndim > 1:
            raise UnfitError("has arrays, and single numbers are needed")
        return QuantileSketch.of(len(column), numbers)

    def result(self, summary: QuantileSketch) -> Quantiles:
        check_filled(summary.count, summary.rows)
        values = dict(zip(self.shares, summary.quantiles(self.shares), strict=True))
        return Quantiles(values, summary.rows, summary.rows - summary.count)


# Values of a column


def present_numbers(column: Column) -> tuple[Floats, int]:
    """The numbers of a column, or its arrays of numbers, and the number of rows without one.

    Raises:
        UnfitError: the column has no numbers, or an infinite one.
    """
    array: Any = column
    if not isinstance(array, np.ndarray):
        if is_grid(array):
            array = array.drop_null()
            numbers = grid(array) if len(array) else np.zeros((0, *array.type.shape))
        elif pa.types.is_null(array.type):
            numbers = np.zeros(0)
        elif pa.types.is_decimal(array.type):
            numbers = numpy_array(array.drop_null().cast(pa.float64()))
        elif pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type):
            numbers = numpy_array(array.drop_null())
        else:
            raise _no_numbers(array.type)
    elif array.dtype.kind in "biuf":
        numbers = array
    else:
        raise _no_numbers(array.dtype)
    floats = np.asarray(numbers, np.float64)
    nan = np.isnan(floats).any(axis=tuple(range(1, floats.ndim)))
    if nan.any():
        floats = floats[~nan]
    if np.isinf(floats).any():
        value = floats[np.isinf(floats)].reshape(-1)[0]
        raise UnfitError(f"has an infinite value, {value}; `.clip` bounds it, `.filter` leaves out its row")
    return floats, len(column) - len(floats)


def missing_rows(column: Column) -> int:
    """The number of rows without a value, for a column of any type."""
    if isinstance(column, np.ndarray):
        return int(np.isnan(column).sum()) if column.dtype.kind == "f" and column.ndim == 1 else 0
    if not pa.types.is_floating(column.type):
        return column.null_count
    return int(cast("Any", column).is_null(nan_is_null=True).true_count)


def _no_numbers(kind: object) -> UnfitError:
    return UnfitError(f"is of type {kind}, and numbers are needed; `.cast` parses text that is numbers")


def check_filled(count: int, rows: int) -> None:
    if not count:
        raise UnfitError(f"has no value in {rows} rows" if rows else "has no value, because there are no rows")


def item(array: Floats) -> Any:
    """A float, or an array if the values of the column are arrays."""
    return array if array.ndim else float(array)


def spread(width: Any) -> Any:
    """The divisor: 1 for a constant column."""
    return item(np.where(np.asarray(width) == 0, 1.0, width))


def like(values: Any, constant: Any) -> Any:
    """The constant as a tensor of the type of `values`, if these are tensors."""
    if not isinstance(constant, np.ndarray) or isinstance(values, np.ndarray):
        return constant
    return values.new_tensor(constant) if hasattr(values, "new_tensor") else constant


# Exact sums, however the rows are divided and ordered: a float is cut into whole digits of 26 bits, on a grid that is
# the same for all floats. A product of two of them is a whole number too, and is cut into digits again. So the sums of
# fewer than 2**36 rows are exact in 64 bits, and Python's integers put them together.


_BITS = 26


def digit_sums(numbers: Floats) -> dict[str, Numbers]:
    """The sums of finite numbers along the first axis, by digit: "x0" of the numbers, "q0" of their squares."""
    digits: dict[int, npt.NDArray[np.int64]] = {}
    while largest := float(np.abs(numbers).max(initial=0.0)):
        digit = (math.frexp(largest)[1] - 1) // _BITS
        values = np.trunc(_scaled(numbers, -digit * _BITS))
        numbers = numbers - _scaled(values, digit * _BITS)
        digits[digit] = values.astype(np.int64)
    sums = {name: np.zeros(numbers.shape[1:], np.int64) for name in ("x0", "q0")}

    def add(name: str, digit: int, values: npt.NDArray[np.int64]) -> None:
        sums[f"{name}{digit}"] = np.asarray(sums.get(f"{name}{digit}", 0) + values.sum(axis=0))

    for digit, values in digits.items():
        add("x", digit, values)
    for (one, values), (other, others) in combinations_with_replacement(digits.items(), 2):
        products = values * others * (1 if one == other else 2)
        add("q", one + other, products & (2**_BITS - 1))
        add("q", one + other + 1, products >> _BITS)
    return sums


def _scaled(numbers: Floats, power: int) -> Floats:
    return numbers * 2.0**power if abs(power) < 1000 else np.ldexp(numbers, power)


def _totals(sums: Mapping[str, Numbers], name: str) -> Iterator[tuple[int, int]]:
    """Each sum, as a whole number and the power of two that it is multiplied by."""
    digits = {int(key[1:]): array.ravel().tolist() for key, array in sums.items() if key[0] == name}
    lowest = min(digits)
    for place in range(sums[f"{name}0"].size):
        yield sum(int(s[place]) << (d - lowest) * _BITS for d, s in digits.items()), lowest * _BITS


def _mean_and_std(count: int, total: tuple[int, int], squares: tuple[int, int]) -> tuple[float, float]:
    (x, x_power), (q, q_power) = total, squares
    power = min(2 * x_power, q_power)
    spread = count * (q << (q_power - power)) - (x * x << (2 * x_power - power))
    mean = (x << max(x_power, 0)) / (count << max(-x_power, 0))
    # The variance may be no float although its root is one. Powers are even, as `_BITS` is.
    excess = max(0, spread.bit_length() - 1000) // 2 * 2
    return mean, math.ldexp(math.sqrt((spread >> excess) / (count * count)), (power + excess) // 2)
