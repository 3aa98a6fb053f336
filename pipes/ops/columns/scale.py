"""`scale`: numbers between two bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError, with_call_site
from ...stats.number_statistics import MinMax, spread
from ...stats.stats import Stats
from .standardize import FittedConversion, fitted_columns

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


class Scale(FittedConversion):
    kind: ClassVar[str] = "scale"

    def call(self) -> str:
        return f"scale(<Stats>, columns={list(self.lines)})"


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
    bounds, and `stats["x"].inverse(values, low=low, high=high)` for others. Warns behind a `split`, as `standardize`.

    Args:
        stats: what `fp.fit` returned for `fp.stats.min_max()`.
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
            raise ArgumentTypeError(with_call_site(f"`{name}` must be a number but got: {bound!r}"))
    if not low < high:
        raise ArgumentError(with_call_site(f"`low` must be < `high` but got: {low} and {high}"))
    fitted = fitted_columns(stats, columns, MinMax, "min_max")
    width = float(high - low)
    lines = {
        name: (extremes.min, spread(np.subtract(extremes.max, extremes.min)) / width, float(low))
        for name, extremes in fitted.items()
    }
    return pipe.then(Scale(lines, stats.fitted_on))
