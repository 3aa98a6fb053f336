"""`standardize`, `scale` and `clip`: numbers within other bounds, such as those of fitted statistics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from ..core.code import step_code
from ..core.findings import Finding
from ..core.graph import Node, node_code, walk
from ..core.operator import Operator, StageView
from ..core.rows import Array, Column
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ..stats.statistics import MeanStd, MinMax, spread
from ..stats.stats import Stats
from ._column_operator import ColumnConversion, check_column_names, map_numbers
from .split import SplitPart

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")


def standardize(pipe: Pipe[T], /, stats: Stats, *, columns: str | Sequence[str] | None = None) -> Pipe[T]:
    """Subtract the mean of a column from its numbers, and divide by the standard deviation.

    Element: a row with the same columns; these are float64, or float32 if they were. Numbers of a column that is
    constant become 0. Nulls and NaN stay. Order and length are the input's. Indexed if the input is. State: none.
    `stats.inverse(batch)` undoes it.

    After a `split`, a warning tells if the statistics are of the rows before it: training then sees something of the
    rows for validation.

    Args:
        stats: the result of `fp.fit` with `fp.stats.mean_std()`.
        columns: the name of a column, or several; by default all that have this statistic.

    Raises:
        ArgumentError: a column does not have this statistic.
        PlanError: there is no such column, or it has no numbers. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> pipe = fp.from_arrays({"x": np.array([1.0, 3.0, 5.0])})
        >>> stats = fp.fit(pipe.take(2), {"x": fp.stats.mean_std()})
        >>> standardized = pipe.standardize(stats)
        >>> [row["x"] for row in standardized]
        [-1.0, 1.0, 3.0]
        >>> stats.inverse(standardized.batch(3)[0].columns)["x"].tolist()
        [1.0, 3.0, 5.0]
    """
    fitted = _fitted_columns(stats, columns, MeanStd, "mean_std")
    lines = {name: (moments.mean, spread(moments.std), 0.0) for name, moments in fitted.items()}
    return pipe.then(Standardize(lines, stats.fitted_on))


@dataclass(frozen=True, eq=False, repr=False)
class FittedConversion(ColumnConversion):
    """For each column, subtracts a number, divides by another, and adds a third."""

    lines: Mapping[str, tuple[Any, Any, float]]
    fitted_on: str = field(repr=False, compare=False)  # the fingerprint of the pipe that the statistics are of

    def call(self) -> str:
        return f"{self.kind}(<Stats>, columns={list(self.lines)})"

    def converted(self) -> Sequence[str]:
        return list(self.lines)

    def resolve(self, stage: StageView) -> Operator:
        _warn_of_leakage(self, stage, self.fitted_on)
        return super().resolve(stage)

    def convert(self, name: str, column: Column) -> Column:
        start, width, low = self.lines[name]

        def line(numbers: Array) -> Any:
            if numbers.shape[1:] != np.shape(start):
                shapes = f"arrays of shape {np.shape(start)}" if np.shape(start) else "single numbers"
                has = f"arrays of shape {numbers.shape[1:]}" if numbers.shape[1:] else "single numbers"
                raise UnfitError(f"has {has}, and its statistics are of {shapes}")
            floats = numbers.astype(np.float64)
            floats -= start
            floats /= width
            if low:
                floats += low
            return floats.astype(np.float32) if numbers.dtype == np.float32 else floats

        return map_numbers(column, line)


class Standardize(FittedConversion):
    kind: ClassVar[str] = "standardize"


def scale(
    pipe: Pipe[T],
    /,
    stats: Stats,
    *,
    columns: str | Sequence[str] | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> Pipe[T]:
    """Map the smallest number of a column to `low`, the largest to `high`, and those between in proportion.

    Element: a row with the same columns; these are float64, or float32 if they were. Numbers of a column that is
    constant become `low`; numbers beyond those that were fitted lie beyond the bounds. Nulls and NaN stay. Order and
    length are the input's. Indexed if the input is. State: none. `stats.inverse(batch)` undoes it for the default
    bounds, and `stats["x"].inverse(values, low=low, high=high)` for others. Warns after a `split`, as `standardize`.

    Args:
        stats: the result of `fp.fit` with `fp.stats.min_max()`.
        columns: the name of a column, or several; by default all that have this statistic.
        low, high: the bounds.

    Raises:
        ArgumentError: a column does not have this statistic, or `low` is not below `high`.
        PlanError: there is no such column, or it has no numbers. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> pipe = fp.from_arrays({"x": np.array([2.0, 4.0, 10.0])})
        >>> [row["x"] for row in pipe.scale(fp.fit(pipe, {"x": fp.stats.min_max()}))]
        [0.0, 0.25, 1.0]
    """
    for name, bound in (("low", low), ("high", high)):
        if isinstance(bound, bool) or not isinstance(bound, (int, float)):
            raise ArgumentTypeError(f"`{name}` must be a number but got: {bound!r}")
    if not low < high:
        raise ArgumentError(f"`low` must be < `high` but got: {low} and {high}")
    fitted = _fitted_columns(stats, columns, MinMax, "min_max")
    width = float(high - low)
    lines = {
        name: (extremes.min, spread(np.subtract(extremes.max, extremes.min)) / width, float(low))
        for name, extremes in fitted.items()
    }
    return pipe.then(Scale(lines, stats.fitted_on))


class Scale(FittedConversion):
    kind: ClassVar[str] = "scale"


def clip(
    pipe: Pipe[T], /, columns: str | Sequence[str], *, low: float | None = None, high: float | None = None
) -> Pipe[T]:
    """Replace numbers below `low` with `low`, and those above `high` with `high`.

    Element: a row with the same columns, whose types stay; infinities become a bound, nulls and NaN stay as they are.
    In a column of arrays each number is clipped. Order and length are the input's. Indexed if the input is. State:
    none.

    Args:
        columns: the name of a column, or several.
        low, high: the bounds; None for no bound. Quantiles cut outliers off: `low=stats["x"][0.01]`, of a fitted
            `fp.stats.quantiles()`.

    Raises:
        ArgumentError: `low` is above `high`, or both are None.
        PlanError: there is no such column, it has no numbers, or its type does not have a bound. If only a run can
            tell, a `DataError`.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> list(fp.from_arrays({"x": np.array([-5.0, 0.5, 99.0])}).clip("x", low=0, high=1))
        [{'x': 0.0}, {'x': 0.5}, {'x': 1.0}]
    """
    return pipe.then(Clip(check_column_names(columns), low=low, high=high))


@dataclass(frozen=True, eq=False, repr=False)
class Clip(ColumnConversion):
    kind: ClassVar[str] = "clip"

    names: tuple[str, ...]
    low: float | None = field(default=None, kw_only=True)
    high: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        bounds: dict[str, Any] = {"low": self.low, "high": self.high}
        for name, bound in bounds.items():
            if isinstance(bound, bool) or not isinstance(bound, (int, float, np.number, type(None))):
                raise ArgumentTypeError(f"`{name}` must be a number but got: {bound!r}")
            if bound is not None and math.isnan(bound):
                raise ArgumentError(f"`{name}` must be a number but got: nan")
            if isinstance(bound, np.number):
                object.__setattr__(self, name, bound.item())
        if self.low is None and self.high is None:
            raise ArgumentError("`clip` must have `low` or `high` but got neither")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ArgumentError(f"`low` must be <= `high` but got: {self.low} and {self.high}")

    def converted(self) -> Sequence[str]:
        return self.names

    def convert(self, name: str, column: Column) -> Column:
        return map_numbers(column, self._clip)

    def _clip(self, numbers: Array) -> Array:
        if numbers.dtype.kind == "f":
            return np.clip(numbers, self.low, self.high)
        if numbers.dtype.kind == "b":
            raise UnfitError("is of type bool, which has no bounds")
        limits: Any = np.iinfo(cast("Any", numbers.dtype))
        low, high = self._whole("low", limits), self._whole("high", limits)
        return np.clip(numbers, limits.min if low is None else low, limits.max if high is None else high)

    def _whole(self, name: str, limits: Any) -> int | None:
        """A bound of whole numbers; None if all numbers of their type are within it."""
        bound = getattr(self, name)
        if bound is None or (bound <= limits.min if name == "low" else bound >= limits.max):
            return None
        if bound != int(bound) or not limits.min <= bound <= limits.max:
            raise UnfitError(
                f"is of type {limits.dtype}, which does not have the number {bound} of `{name}`; give a whole number "
                "within its range, or `.cast` the column to a float type"
            )
        return int(bound)


def _fitted_columns(stats: object, columns: str | Sequence[str] | None, kind: type, function: str) -> Mapping[str, Any]:
    """The statistics of one kind, of `columns` or of all that have it; `function` of `fp.stats` asks for it."""
    if not isinstance(stats, Stats):
        raise ArgumentTypeError(f"`stats` must be a result of `fp.fit` but got: {stats!r:.200}")
    names = (
        [name for name in stats if isinstance(stats[name], kind)] if columns is None else check_column_names(columns)
    )
    wrong = [name for name in names if not isinstance(dict(stats).get(name), kind)]
    if wrong or not names:
        lacking = f"none of column {wrong[0]!r}" if wrong else "none of any column"
        raise ArgumentError(f"`stats` must have `fp.stats.{function}()` but has {lacking}: {stats!r}")
    return {name: stats[name] for name in names}


def _warn_of_leakage(op: Operator, stage: StageView, fitted_on: str) -> None:
    """Warn if `op` comes after a `split`, and its statistics are of the same source before that split."""
    splits = [node for node in walk(cast("Stage", stage.input).node) if isinstance(node.op, SplitPart)]
    if not splits:
        return
    from ..plan.fingerprint import Fingerprint

    fitted = json.loads(fitted_on)
    divisions = [_division(facts) for call, _, facts in fitted if call.startswith("split(")]
    for split in splits:
        here = json.loads(Fingerprint(split).pipe)
        if _division(here[-1][2]) not in divisions and _share_a_source(here, fitted):
            code = node_code(Node(split.op, split.inputs)).lstrip(".")
            text = (
                f"`{step_code(op, source=False)}`: the statistics are of the rows before `{code}`, so those of the "
                "other parts have a share in them (leakage); fit them on the part for training, `fp.fit(train, ...)`"
            )
            repair = f"stats = fp.fit(train, statistics)\ntrain{step_code(op, source=False)}"
            Finding("leakage", "warning", stage.call_site, text, repair).warn()
            return


def _division(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that all parts of a split share."""
    return {name: value for name, value in facts.items() if name not in ("part", "length", "rows")}


def _share_a_source(entries: list[Any], others: list[Any]) -> bool:
    sources = [entry for entry in entries if not entry[1]]
    return any(entry in sources for entry in others if not entry[1])
