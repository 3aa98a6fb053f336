"""`mean_std`, `min_max` and `missing`: moments and extremes of numbers, exact however the rows are divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.column import Column
from ..errors import UnfitError
from .exact_sums import digit_sums, mean_and_std
from .present_values import missing_rows, present_numbers
from .statistic import Fitted, Statistic, Summary

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MeanStd(Fitted):
    """The moments of a column of numbers; of a column of arrays, those of each number in the array.

    Attributes:
        rows: the number of rows.
        missing: how many of them have no value.
        mean: the average.
        std: the standard deviation, divided by the number of values.
    """

    kind: ClassVar[str] = "mean_std"

    rows: int
    missing: int
    mean: Any
    std: Any

    def inverse(self, values: Any) -> Any:
        """What `standardize` made these values of: an array or a tensor."""
        return values * like(values, spread(self.std)) + like(values, self.mean)

    def to_json(self) -> dict[str, object]:
        return {"rows": self.rows, "missing": self.missing, "mean": plain(self.mean), "std": plain(self.std)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MeanStd:
        return cls(values["rows"], values["missing"], from_plain(values["mean"]), from_plain(values["std"]))


@dataclass(frozen=True)
class MinMax(Fitted):
    """The smallest and the largest number; of a column of arrays, those of each number in the array.

    Attributes:
        rows: the number of rows.
        missing: how many of them have no value.
        min: the smallest number.
        max: the largest number.
    """

    kind: ClassVar[str] = "min_max"

    rows: int
    missing: int
    min: Any
    max: Any

    def inverse(self, values: Any, *, low: float = 0.0, high: float = 1.0) -> Any:
        """What `scale(low=low, high=high)` made these values of: an array or a tensor."""
        width = like(values, spread(np.subtract(self.max, self.min)))
        return (values - low) / (high - low) * width + like(values, self.min)

    def to_json(self) -> dict[str, object]:
        return {"rows": self.rows, "missing": self.missing, "min": plain(self.min), "max": plain(self.max)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MinMax:
        return cls(values["rows"], values["missing"], from_plain(values["min"]), from_plain(values["max"]))


@dataclass(frozen=True)
class Missing(Fitted):
    """How many rows have no value.

    Attributes:
        rows: the number of rows.
        missing: how many of them have a null, or NaN.
    """

    kind: ClassVar[str] = "missing"

    rows: int
    missing: int

    def to_json(self) -> dict[str, object]:
        return {"rows": self.rows, "missing": self.missing}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Missing:
        return cls(values["rows"], values["missing"])


class NumberSummary(Summary):
    """Counts and arrays, each of the shape of a value.

    Attributes:
        rows, missing: the number of rows, and of those without a value.
        arrays: by name; the moments or extremes of the others.
    """

    def __init__(self, rows: int, missing: int, **arrays: Floats) -> None:
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
        arrays = {name: np.array(value, np.float64) for name, value in values.items()}
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
    def _join(cls, name: str, stack: Floats) -> Floats:
        """The array of all parts, made of those of each: their sum, unless a subclass joins them in another way."""
        return np.asarray(stack.sum(axis=0))


class Moments(NumberSummary):
    """Sums of numbers and of their squares, exact by their digits."""

    @classmethod
    def of(cls, numbers: Floats, missing: int = 0) -> Moments:
        """The moments of finite numbers."""
        return cls(len(numbers) + missing, missing, **digit_sums(numbers))

    def mean_and_std(self) -> tuple[Floats, Floats]:
        return mean_and_std(self.count, self.arrays)


class Extremes(NumberSummary):
    """The smallest and the largest number."""

    @classmethod
    def _join(cls, name: str, stack: Floats) -> Floats:
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


def mean_std() -> Statistic[Any]:
    """The mean and the standard deviation of numbers, for `standardize`."""
    return MeanStdStatistic()


def min_max() -> Statistic[Any]:
    """The smallest and the largest number, for `scale`."""
    return MinMaxStatistic()


def missing() -> Statistic[Any]:
    """How many rows have no value. All other statistics count that too."""
    return MissingStatistic()


def check_filled(count: int, rows: int) -> None:
    if not count:
        raise UnfitError(f"has no value in {rows} rows" if rows else "has no value, because there are no rows")


def item(array: Floats) -> Any:
    """A float, or an array if the values of the column are arrays."""
    return array if array.ndim else float(array)


def plain(value: Any) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


def from_plain(value: Any) -> Any:
    return np.array(value, np.float64) if isinstance(value, list) else value


def spread(width: Any) -> Any:
    """What to divide by: 1 for a column that is constant."""
    return item(np.where(np.asarray(width) == 0, 1.0, width))


def like(values: Any, constant: Any) -> Any:
    """A constant that can be computed with `values`: a tensor of its type if these are tensors."""
    if not isinstance(constant, np.ndarray) or isinstance(values, np.ndarray):
        return constant
    return values.new_tensor(constant) if hasattr(values, "new_tensor") else constant
