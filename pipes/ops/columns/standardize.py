"""`standardize`: numbers with mean 0 and standard deviation 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ...core.column import Array, Column
from ...core.operator import Operator, StageView
from ...errors import ArgumentError, ArgumentTypeError, UnfitError, with_call_site
from ...stats.number_statistics import MeanStd, spread
from ...stats.stats import Stats
from ._column_conversion import ColumnConversion, check_column_names, map_numbers
from ._leakage import warn_of_leakage

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class FittedConversion(ColumnConversion):
    """Subtracts a number from those of a column, and divides the rest by another.

    Attributes:
        lines: by column what to subtract, what to divide by, and what to add then.
        fitted_on: the fingerprint of the pipe that the statistics are of.
    """

    lines: Mapping[str, tuple[Any, Any, float]]
    fitted_on: str = field(repr=False, compare=False)

    def converted(self) -> Sequence[str]:
        return list(self.lines)

    def resolve(self, stage: StageView) -> Operator:
        warn_of_leakage(self, stage, self.fitted_on)
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

    def call(self) -> str:
        return f"standardize(<Stats>, columns={list(self.lines)})"


def fitted_columns(stats: object, columns: str | Sequence[str] | None, kind: type, function: str) -> Mapping[str, Any]:
    """Those of the statistics that are of one kind, or those of `columns`, which must be.

    Args:
        stats, columns: the arguments of the operator.
        kind: the type of what was fitted.
        function: the function of `fp.stats` that asks for it.
    """
    if not isinstance(stats, Stats):
        raise ArgumentTypeError(with_call_site(f"`stats` must be what `fp.fit` returns but got: {stats!r:.200}"))
    names = (
        [name for name in stats if isinstance(stats[name], kind)] if columns is None else check_column_names(columns)
    )
    wrong = [name for name in names if not isinstance(dict(stats).get(name), kind)]
    if wrong or not names:
        lacking = f"none of column {wrong[0]!r}" if wrong else "none of any column"
        raise ArgumentError(with_call_site(f"`stats` must have `fp.stats.{function}()` but has {lacking}: {stats!r}"))
    return {name: stats[name] for name in names}


def standardize(pipe: Pipe[T], /, stats: Stats, *, columns: str | Sequence[str] | None = None) -> Pipe[T]:
    """Subtract the mean of a column from its numbers, and divide by the standard deviation.

    Element: a row with the same columns; these are float64, or float32 if they were. Numbers of a column that is
    constant become 0. Nulls and NaN stay. Order and length are the input's. Indexed if the input is. State: none.
    `stats.inverse(batch)` undoes it.

    Behind a `split`, a warning tells if the statistics are of the rows before it: those for validation then have a
    share in what training sees.

    Args:
        stats: what `fp.fit` returned for `fp.stats.mean_std()`.
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
    fitted = fitted_columns(stats, columns, MeanStd, "mean_std")
    lines = {name: (moments.mean, spread(moments.std), 0.0) for name, moments in fitted.items()}
    return pipe.then(Standardize(lines, stats.fitted_on))
