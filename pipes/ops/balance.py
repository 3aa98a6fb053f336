"""`batch(balance=)`: puts rows into an order in which batches cost about the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ..core.block import Block, join_blocks
from ..core.checks import check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.graph import Node, find_reshuffle, node_code
from ..core.operator import Operator, Order, StageView, TokenOfInput
from ..core.rows import BlockRows, Indices, index_array, take
from ..engine.stage import Stage
from ..errors import ArgumentError, ArgumentTypeError, PlanError, UnfitError
from ._keys import check_named_key
from ._partition import balanced_order
from ._shared import Rearranged, plan_error, read_each_row
from .batch_by_size import Measure, check_measure, sizes_in, sizes_of
from .group_by import Groups, segment_blocks

Costs: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

ROWS_AT_ONCE = 2**14
"""About the rows whose order is computed together: most of the cost of a group does not depend on its rows."""
GROUPS_SHOWN = 64
"""The groups that `explain` looks at."""


@dataclass(frozen=True, eq=False, repr=False)
class Balance(Rearranged, TokenOfInput):
    """Orders the rows of each group of `size * among` so that each `size` of them cost about the same.

    The costs of an indexed input are kept by position before all shuffles, where they stay in all epochs. A stream is
    balanced segment by segment. The arguments are those of `batch`, which makes the batches of this order.
    """

    kind: ClassVar[str] = "balance"
    order: ClassVar[Order] = Order.ROW_LOCAL

    size: int
    drop_last: bool = False
    balance: Measure | Sequence[float] | npt.NDArray[Any] = field(kw_only=True)
    among: int = field(default=64, kw_only=True)
    costs: Costs | None = field(default=None, kw_only=True, repr=False, compare=False)  # as in `_before_moves`

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("size", self.size, least=1))
        object.__setattr__(self, "among", check_int("among", self.among, least=1))
        if isinstance(self.balance, str) or callable(self.balance):
            check_measure("balance", self.balance)
        else:
            object.__setattr__(self, "balance", _checked(self.balance))

    @property
    def _group(self) -> int:
        return self.size * self.among

    @property
    def _measure(self) -> Measure | None:
        return self.balance if isinstance(self.balance, str) or callable(self.balance) else None

    def call(self) -> str:
        return call_code(self).replace(self.kind, "batch", 1)

    def identity(self) -> Json:
        return None if self.costs is None else {"costs": crc32(self.costs.tobytes())}

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def lookback(self) -> int:
        return self._group

    def resolve(self, stage: StageView) -> Operator:
        measure = self._measure
        if isinstance(measure, str):
            check_named_key(self, stage, (measure,))
        if not stage.input.indexed:
            if measure is None:
                raise PlanError(
                    "`balance` must be a column or a function if the pipe is streamed, because an array has costs by "
                    "position; put `.load()` before `batch`",
                    at=stage.call_site,
                )
            return self
        source = cast("Stage", stage.input)
        if source.node.has_user_boundary:
            raise PlanError(
                "`batch(balance=)` must come before `shard_by_rank()`, because it balances the rows of all ranks; swap "
                "the two",
                at=stage.call_site,
            )
        before, moves = _before_moves(source)
        if (moving := find_reshuffle(before.node)) is not None:
            raise PlanError(
                f"`batch(balance=)` keeps costs by position, and `{node_code(moving).lstrip('.')}` changes positions "
                f"before `{node_code(before.node).lstrip('.')}`; shuffle after that, or put `.load()` before `batch`",
                at=stage.call_site,
            )
        rows = before.length or 0
        if measure is not None:
            still = _with_still_rows(source, moves)
            view = Stage(Node(self, (still.node,), stage.call_site), stage.name, (still,))
            return replace(
                self,
                costs=read_each_row(self, view, partial(sizes_of, measure=measure, argument="balance"), np.float64)[0],
            )
        costs = cast("Costs", self.balance)
        if len(costs) != rows:
            error = UnfitError(f"`balance` must have a cost for each of the {rows} rows but has {len(costs)}")
            raise plan_error(self, stage, error)
        return replace(self, costs=costs)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        """The positions of rows in the input, whose order is computed for some groups at a time."""
        rows = stage.input.length or 0
        places = index_array(indices).copy()
        at_once = max(1, ROWS_AT_ONCE // self._group) * self._group
        parts = places // at_once
        run = (context.seed, context.epoch, context.rounds, context.shard)
        for part in np.unique(parts[places < rows]).tolist():
            own = parts == part
            first, stop = part * at_once, min(rows, (part + 1) * at_once)
            order = stage.memo((run, part), partial(self._order, stage, range(first, stop), context))
            places[own] = first + order[places[own] - first]
        return places

    def _order(self, stage: StageView, rows: range, context: Context) -> Ints:
        return balanced_order(self._costs_at(stage, rows, context), self.size, self.among)

    def _costs_at(self, stage: StageView, rows: Indices, context: Context) -> Costs:
        """The costs of rows of the input in this epoch."""
        assert self.costs is not None, "`resolve` finds the costs before a run"
        _, moves = _before_moves(cast("Stage", stage.input))
        for moved in moves:
            rows = cast("Rearranged", moved.op).places(moved, rows, context)
        return self.costs[index_array(rows)]

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        places = self.places(stage, indices, context)
        context.pacing.clock.count("cost", stage.name, round(float(self._costs_at(stage, places, context).sum())))
        return stage.input.rows(places, context)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return segment_blocks(stage, at, context, self._group, partial(self._balanced, stage, context))

    def _balanced(self, stage: StageView, context: Context, segment: list[Block]) -> Groups:
        assert self._measure is not None, "only an indexed pipe has costs by position"
        costs = sizes_in(segment, self, stage, context, self._measure, "balance")
        context.pacing.clock.count("cost", stage.name, round(float(costs.sum())))
        order = balanced_order(costs, self.size, self.among)
        rows, origins = join_blocks(segment)
        return take(rows, order), origins and origins.select(order)

    def remark(self, stage: StageView) -> str | None:
        if not stage.input.indexed:
            return f"balances {self.among} batches of one shard at a time"
        rows = range(min(stage.input.length or 0, GROUPS_SHOWN * self._group) // self._group * self._group)
        if not rows:
            return None
        context = Context()
        before = self._costs_at(stage, rows, context)
        after = self._costs_at(stage, self.places(stage, rows, context), context)
        spreads = (_spread(costs.reshape(-1, self.among, self.size).sum(2)) for costs in (before, after))
        without, balanced = spreads
        return (
            f"the costliest of {self.among} batches costs {balanced:.3f} times their mean, and {without:.3f} times "
            "without `balance`"
        )


def _checked(balance: object) -> Costs:
    """Costs as an array of their own."""
    try:
        costs = np.array(balance, np.float64)
    except (TypeError, ValueError):
        costs = np.zeros((0, 0))
    if costs.ndim != 1:
        raise ArgumentTypeError(
            "`balance` must be the name of a column, a function of a row, or an array with a number for each row but "
            f"got: {balance!r:.80}"
        )
    wrong = np.flatnonzero(~(costs >= 0) | np.isinf(costs))
    if len(wrong):
        raise ArgumentError(
            f"`balance` must be finite numbers >= 0 but that of row {wrong[0] + 1} is: {costs[wrong[0]]}"
        )
    costs.flags.writeable = False
    return costs


def _spread(sums: Costs) -> float:
    """How many times the mean the largest sum of a group is, on average."""
    means = sums.mean(1)
    return float(np.mean(sums.max(1) / np.where(means > 0, means, 1)))


def _before_moves(source: Stage) -> tuple[Stage, list[Stage]]:
    """The last stage whose rows keep their positions in all epochs, and those behind it that move rows, last first."""
    moves: list[Stage] = []
    stage = before = source
    while len(stage.inputs) == 1 and (isinstance(stage.op, Rearranged) or stage.one_for_one) and stage.input.indexed:
        if isinstance(stage.op, Rearranged):
            moves.append(stage)
            before = stage.input
        stage = stage.input
    return (before if moves else source), moves


def _with_still_rows(source: Stage, moves: Sequence[Stage]) -> Stage:
    """`source` without the operators that move rows."""
    if not moves:
        return source
    stage = moves[-1].input
    path: list[Stage] = []
    while source is not moves[-1]:
        path.append(source)
        source = source.input
    for step in reversed(path):
        if step not in moves:
            stage = Stage(Node(step.op, (stage.node,), step.call_site), step.name, (stage,))
    return stage
