"""`DrawRows`: the operator of `sample`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.checks import check_bool, check_int
from ...core.code import call_code
from ...core.context import Context
from ...core.operator import Order, StageView
from ...core.randomness import uniforms
from ...core.rows import Indices, index_array
from ...engine.permutation import Permutation
from ...errors import ArgumentError, ArgumentTypeError, PlanError, with_call_site
from .._same_rows import Rearranged

Floats = npt.NDArray[np.float64]


class _Cumulative(NamedTuple):
    """The sums of the weights up to each row, and the last row that may be drawn."""

    sums: Floats
    last: int


@dataclass(frozen=True, eq=False)
class DrawRows(Rearranged):
    kind: ClassVar[str] = "sample"
    order: ClassVar[Order] = Order.GLOBAL

    size: int | None = None
    row_weights: Floats | None = field(default=None, kw_only=True)
    replacement: bool = field(default=False, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    each_epoch: bool = field(default=True, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.size is not None:
            object.__setattr__(self, "size", check_int("size", self.size, least=0))
        if self.row_weights is not None:
            object.__setattr__(self, "row_weights", _check_weights(self.row_weights))
        check_bool("replacement", self.replacement)
        if self.seed is not None:
            object.__setattr__(self, "seed", check_int("seed", self.seed, least=0))
        check_bool("each_epoch", self.each_epoch)

    def call(self) -> str:
        return call_code(self).replace("row_weights=", "weights=")

    def reshuffles(self) -> bool:
        return self.each_epoch

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        assert rows is not None, "an indexed pipe knows its length"
        weights = self.row_weights
        if weights is not None and len(weights) != rows:
            raise self._plan_error(
                stage, f"there must be a weight for each of {rows} rows but there are {len(weights)}"
            )
        drawable = rows if weights is None else int(np.count_nonzero(weights))
        if self.replacement:
            if self.size and not drawable:
                raise self._plan_error(stage, f"there are no rows to draw {self.size} from")
            return rows if self.size is None else self.size
        if self.size is not None and self.size > drawable:
            kind = "rows" if weights is None else "rows with a weight above 0"
            raise self._plan_error(
                stage,
                f"`size` must be at most the number of {kind}, {drawable}, but is {self.size}; give "
                "`replacement=True` to draw rows repeatedly",
            )
        return drawable if self.size is None else self.size

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        self.length(stage)
        rows = stage.input.length or 0
        context = context if self.each_epoch else context.every_epoch()
        run = (context.seed, context.epoch, context.rounds, context.shard)
        key = stage.memo(run, lambda: context.key(stage.name, seed=self.seed))
        if not self.replacement:
            if self.row_weights is None:
                return stage.memo(("order", run), lambda: Permutation(key, rows))[indices]
            keys = stage.memo(("order", run), lambda: self._weighted_order(uniforms(key, np.arange(rows))))
            return keys[index_array(indices)]
        numbers = uniforms(key, index_array(indices))
        if self.row_weights is None:
            return (numbers * rows).astype(np.int64)
        sums, last = stage.memo("sums", self._cumulative)
        return index_array(np.minimum(np.searchsorted(sums, numbers * sums[-1], side="right"), last))

    def _weighted_order(self, numbers: Floats) -> npt.NDArray[np.int64]:
        """The rows in the order in which they are drawn, one after the other, each by the weights of those left."""
        assert self.row_weights is not None
        drawable = np.flatnonzero(self.row_weights)
        return drawable[np.argsort(np.log1p(-numbers[drawable]) / -self.row_weights[drawable], kind="stable")]

    def _cumulative(self) -> _Cumulative:
        assert self.row_weights is not None
        return _Cumulative(np.cumsum(self.row_weights), int(np.flatnonzero(self.row_weights)[-1]))

    def _plan_error(self, stage: StageView, problem: str) -> PlanError:
        return PlanError(with_call_site(f"`{self.call()}`: {problem}", stage.call_site))


def _check_weights(weights: object) -> Floats:
    """A copy of the weights as an array."""
    try:
        array = np.array(weights, np.float64)
    except (TypeError, ValueError):
        array = np.zeros((0, 0))
    if array.ndim != 1:
        raise ArgumentTypeError(
            with_call_site(f"`weights` must be a list or an array with a number for each row but got: {weights!r:.80}")
        )
    wrong = np.flatnonzero(~(array >= 0) | np.isinf(array))
    if len(wrong):
        place = int(wrong[0])
        raise ArgumentError(
            with_call_site(f"`weights` must be finite numbers >= 0 but that of row {place + 1} is: {array[place]}")
        )
    if len(array) and not array.any():
        raise ArgumentError(with_call_site("`weights` must not all be 0, because no row could be drawn"))
    array.flags.writeable = False
    return array
