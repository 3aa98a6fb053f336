"""`clip`: numbers within bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from ...core.column import Array, Column
from ...errors import ArgumentError, ArgumentTypeError, UnfitError, with_call_site
from ._column_conversion import ColumnConversion, check_column_names, map_numbers

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Clip(ColumnConversion):
    kind: ClassVar[str] = "clip"

    names: tuple[str, ...]
    low: float | None = field(default=None, kw_only=True)
    high: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        bounds: dict[str, Any] = {"low": self.low, "high": self.high}
        for name, bound in bounds.items():
            if isinstance(bound, bool) or not isinstance(bound, (int, float, np.number, type(None))):
                raise ArgumentTypeError(with_call_site(f"`{name}` must be a number but got: {bound!r}"))
            if bound is not None and math.isnan(bound):
                raise ArgumentError(with_call_site(f"`{name}` must be a number but got: nan"))
            if isinstance(bound, np.number):
                object.__setattr__(self, name, bound.item())
        if self.low is None and self.high is None:
            raise ArgumentError(with_call_site("`clip` must have `low` or `high` but got neither"))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ArgumentError(with_call_site(f"`low` must be <= `high` but got: {self.low} and {self.high}"))

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


def clip(
    pipe: Pipe[T], /, columns: str | Sequence[str], *, low: float | None = None, high: float | None = None
) -> Pipe[T]:
    """Replace numbers below `low` by `low`, and those above `high` by `high`.

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
