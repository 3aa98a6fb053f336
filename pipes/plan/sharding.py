"""`Sharding`: the places of a graph where rows are divided among shards, and the rows of a shard of units.

Sharding never changes what a pipe means: all shards together give the rows of `for x in pipe`. The rows are divided
after the longest indexed part, or after the last operator that looks at the position of a row among all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, cast

import numpy as np

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.graph import Node, find_remote, walk, with_inputs
from ..core.operator import Amount, Input, Operator, Order, StageView, Trait
from ..core.taken import Taken
from ..engine.run import check_cursor
from ..engine.skips import parted_cursor
from ..engine.stage import Stage
from .division import Division, PieceRun, SharedRead, division_of
from .rests import Edge, Rest, Start
from .shards import (
    DrawsOf,
    NeighboursShard,
    PermutedShard,
    RemainingShard,
    RestOfShard,
    SpanRows,
    StreamedShard,
    shared_rows,
)

NEAR_FOR_ROWS, NEAR = 64, 10
"""A cut nearer to the border of a unit than 1/64 of a share goes to the border if lengths are known: ranks then differ
by little. If they are not, 1/10 of a share is near, and fewer units are read by several shards."""


@dataclass
class Sharding:
    """Builds the graphs of the shards of one graph.

    Attributes:
        shards: the number of shards.
        ranks: the number of ranks that divide them.
        stages: the stages of the graph without shards; they know its lengths.
        names: the names of operators; nodes of the shards' graphs are added.
        shared_reads: the nodes whose output all shards read; `subgraph` adds them.
        expanded: the nodes that make many rows of each unit, with an operator that divides the units; likewise.
    """

    shards: int
    ranks: int
    stages: Mapping[Node, Stage]
    names: dict[Node, str]
    shared_reads: dict[Node, SharedRead] = field(default_factory=dict)
    expanded: dict[Node, UnitsShard] = field(default_factory=dict)
    _nodes: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def subgraph(self, node: Node, shard: int, *, shuffled_later: bool = False) -> Node:
        """The graph below `node` that shard `shard` runs. Shards share the nodes that are the same for all of them.

        `shuffled_later` says that a shuffle follows and that no operator before it looks at positions or groups rows:
        units may then come in any order.
        """
        key = (node, shard, shuffled_later)
        return self.once(key, lambda: self._sharded(node, shard, shuffled_later=shuffled_later))

    def rest(self, node: Node, rest: Rest, numbers: Mapping[Node, int]) -> Node:
        """The graph below `node` that a rest runs."""
        return self._rest(node, rest.shard, rest.top.given or 0, rest.starts, numbers)

    def _rest(
        self, node: Node, shard: int, given: int, starts: Mapping[Edge, Start], numbers: Mapping[Node, int]
    ) -> Node:
        if not has_starts(node, starts, numbers):
            return node if self.shards == 0 else self.subgraph(node, shard)
        inputs: list[Node] = []
        for place, source in enumerate(node.inputs):
            start = start_at(node, place, starts, numbers)
            if start is None:
                inputs.append(self._rest(source, shard, given, starts, numbers))
            else:
                inputs.append(self.begun(start, self._rest(source, start.origin, start.given or 0, starts, numbers)))
        return self.rebuilt(node, tuple(inputs), given)

    def begun(self, start: Start, node: Node) -> Node:
        """The rows of `node` from a start on."""
        name = f"rest of {self.names[node]}"
        ops: list[Operator] = [RestOfShard(start, self.shards, None, None)]
        if self.shards == 0:
            ops = [DrawsOf(start.origin)] if start.origin >= 0 else []
            if start.cursor is not None or not ops:
                ops.append(RemainingShard(1, 0, Taken.of_plain(start.cursor)))
        for op in ops:
            node = Node(op, (node,), node.call_site)
            self.names[node] = name
        return node

    def runs_per_shard(self, node: Node) -> bool:
        """Whether each shard runs `node` on its own rows."""
        if node.op.trait is Trait.SHARD:
            return False
        if node.has_user_boundary:
            return True
        return not (node.indexed or not node.inputs or node.op.order is Order.GLOBAL)

    def shard_points(self, root: Node) -> set[Node]:
        """The nodes whose output is divided among the shards, in the graph below `root`."""
        points: set[Node] = set()
        seen: set[Node] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if not self.runs_per_shard(node):
                points.add(node.inputs[0] if node.op.trait is Trait.SHARD else node)
                continue
            whole = node.op.order is Order.GLOBAL
            stack += [child for child in node.inputs if not whole or child.has_user_boundary]
        return points

    def once(self, key: tuple[object, ...], make: Callable[[], Node]) -> Node:
        """The node of this key, made when it is first asked for."""
        if key not in self._nodes:
            self._nodes[key] = make()
        return self._nodes[key]

    def _sharded(self, node: Node, shard: int, *, shuffled_later: bool) -> Node:
        if node.op.trait is Trait.SHARD:
            return self._divided(node.inputs[0], shard, shuffled_later=shuffled_later)
        if not self.runs_per_shard(node):
            return self._divided(node, shard, shuffled_later=shuffled_later)
        if node.op.expands and (units := expanded_units(node)) is not None:
            return self._expanded(node, units, shard, shuffled_later=shuffled_later)
        inputs: list[Node] = []
        for source in node.inputs:
            if node.op.order is Order.GLOBAL and not source.has_user_boundary:
                reason = f"`{node.op.kind}` needs all of its rows beside an input that is divided among the shards"
                repair = f"put `shard_by_rank()` after `{node.op.kind}`, so that its rows are divided"
                self.shared_reads[source] = SharedRead(reason, repair=repair)
                inputs.append(source)
            else:
                inputs.append(self.subgraph(source, shard, shuffled_later=shuffled_after(node, shuffled_later)))
        return self.rebuilt(node, tuple(inputs))

    def rebuilt(self, node: Node, inputs: tuple[Node, ...], given: int = 0) -> Node:
        """`node` as a shard runs it after it has given some rows, with other inputs and under the same name."""
        op = node.op.in_shard(max(1, self.shards))
        op = op.from_row(given) or op
        rebuilt = with_inputs(node, inputs) if op is node.op else Node(op, inputs, node.call_site)
        self.names[rebuilt] = self.names[node]
        return rebuilt

    def shard_operator(
        self, node: Node, shard: int, *, shuffled_later: bool
    ) -> PermutedShard | NeighboursShard | StreamedShard:
        """The operator that gives a shard its rows of `node`."""
        if node.indexed:
            permuted = shuffled_later and not reorders(node)
            return (PermutedShard if permuted else NeighboursShard)(self.shards, shard)
        dispatched = any(below.op.trait is Trait.ONE_PROCESS for below in walk(node))
        return StreamedShard(self.shards, shard, dispatched)

    def _divided(self, node: Node, shard: int, *, shuffled_later: bool) -> Node:
        """The rows of `node` that belong to a shard."""
        op = self.shard_operator(node, shard, shuffled_later=shuffled_later)
        if isinstance(op, StreamedShard) and self.shards > 1:
            reason = f"the rows of `{node.op.kind}` cannot be divided without reading all of them"
            by_rank = op.dispatched or find_remote(node) is not None
            repair = "write its rows to files once, such as with `write_parquet`, and read these"
            self.shared_reads[node] = SharedRead(reason, by_rank, repair, can_dispatch=not by_rank)
        divided, each_row = node, list[Node]()
        while divided.indexed and self.stages[divided].one_for_one and not divided.op.needs_positions:
            each_row.append(divided)
            (divided,) = divided.inputs
        own = self._dealt(op, divided, self.names[node])
        # A shard reads many short ranges. Functions of single rows are called after all of them.
        for each in reversed(each_row):
            own = self.rebuilt(each, (own,))
        return own

    def units_shard(self, node: Node, units: Node, shard: int, *, shuffled_later: bool) -> UnitsShard:
        """The operator that gives a shard its rows if `node` makes many rows of each unit."""
        reordered = reorders(units)
        any_order = shuffled_later and not reordered
        near = NEAR_FOR_ROWS if self.stages[node].length is not None else NEAR
        return UnitsShard(self.shards, self.ranks, shard, any_order, any_order or reordered, near)

    def _expanded(self, node: Node, units: Node, shard: int, *, shuffled_later: bool) -> Node:
        op = self.units_shard(node, units, shard, shuffled_later=shuffled_later)
        self.expanded[node] = op
        return self._dealt(op, node, self.names[node])

    def _dealt(self, op: Operator, source: Node, name: str) -> Node:
        """The rows of `source` that `op` gives a shard; `name` is that of the rows to divide."""
        # The name is a key of randomness, so it must not depend on which shards a process runs.
        node = Node(op, (source,), source.call_site)
        self.names[node] = f"{op.kind} of {name}"
        return node


def start_at(node: Node, place: int, starts: Mapping[Edge, Start], numbers: Mapping[Node, int]) -> Start | None:
    """Where a rest begins in the rows of an input of `node`, if it begins there."""
    return None if node.op.trait is Trait.TRANSPARENT else starts.get((numbers[node], place))


def has_starts(node: Node, starts: Mapping[Edge, Start], numbers: Mapping[Node, int]) -> bool:
    """Whether a rest begins in the rows of an input of `node`, or below."""
    return any((numbers[below], place) in starts for below in walk(node) for place in range(len(below.inputs)))


def reorders(node: Node) -> bool:
    """Whether rows are shuffled at `node` or below."""
    return any(below.inputs and (below.op.order is Order.REORDERS or below.op.reshuffles()) for below in walk(node))


def shuffled_after(node: Node, shuffled_later: bool) -> bool:
    if node.op.order is Order.REORDERS and node.op.reshuffles():
        return True
    return shuffled_later and node.op.order in (Order.ROW_LOCAL, Order.REORDERS)


def expanded_units(node: Node) -> Node | None:
    """The indexed rows that `node` expands, if all operators between are row-local."""
    units = node.inputs[0]
    if units.has_user_boundary:
        return None
    while not units.indexed:
        if units.op.trait is Trait.WORKERS:
            return None  # its rows come from a worker, in order
        expanded_before = units.op.expands and node.op.trait is not Trait.WHOLE_UNITS
        if len(units.inputs) != 1 or units.op.order is not Order.ROW_LOCAL or expanded_before:
            return None
        units = units.inputs[0]
    return units


# The rows of a shard whose input makes many rows of each unit.


def unit_at(rows: Stage, at: Cursor) -> int:
    """The position of the unit at which a run of its rows stands."""
    return cursor_below(rows, at, lambda stage: stage.indexed).position


def cursor_below(stage: Stage, at: Cursor, is_there: Callable[[Stage], bool]) -> Cursor:
    """The cursor of a stage below, in the chain of single inputs, from which `stage` goes on at a cursor of its own."""
    while not is_there(stage):
        own = parted_cursor(at, len(stage.inputs))[0] if stage.leaves_out else at
        ((_, plain),) = stage.op.input_cursors(stage, own)
        at, stage = Cursor.of(plain), stage.input
    return at


@dataclass(frozen=True, repr=False)  # a part of the key by which shards find their common division
class UnitsShard(Operator):
    """The rows of shard `shard` of `shards`, if the input makes many rows of each unit.

    Attributes:
        any_order: units come in a random order, which a shuffle after it allows.
        varies: the division differs between passes over the data.
        ranks, near: as for `divide`.
    """

    kind: ClassVar[str] = "deal_units"
    order: ClassVar[Order] = Order.GLOBAL
    moves_skipped: ClassVar[bool] = True

    shards: int
    ranks: int
    shard: int
    any_order: bool
    varies: bool
    near: int

    def division(self, rows: Stage, context: Context) -> Division:
        """The division of the units in the pass and the round of `context`."""
        run = (context.seed, context.epoch, context.rounds) if self.varies else ()
        any_order, near, in_order = self.any_order, self.near, not self.varies
        # The stage of the rows keeps it, so that all shards share it.
        return rows.memo(
            ("division", replace(self, shard=0), run),
            lambda: division_of(
                rows, self.shards, self.ranks, context, any_order=any_order, near=near, in_order=in_order
            ),
        )

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        number, source = at.numbered()
        check_numbers(number)
        # Runs of pieces have cursors like those of the input. If several shards read a piece, they are tokens of these.
        try:
            check_cursor(cast("Stage", stage.input), source.plain)
        except ValueError:
            yield stage.input, source.token

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount:
        division = self.division(cast("Stage", stage.input), context)
        before = np.concatenate([[0.0], np.cumsum(division.weights_of(self.shard))])
        number, source = at.numbered()
        done = 0.0
        for run in division.runs(self.shard, number):
            if run.number > number:
                break
            fraction = 1.0
            if run.number == number:
                inner = source if run.place is None else Cursor.of(source.token)
                amount = run.source.amount_before(inner.advance(at.skip).plain, context)
                fraction = 0.0 if amount is None else amount.fraction
            begin, end = run.within
            opened = float(before[run.first])
            done = opened + (begin + fraction * (end - begin)) * (float(before[run.stop]) - opened)
        return Amount(done, float(before[-1]))

    def spans(self, stage: StageView, at: Cursor, context: Context) -> Iterator[SpanRows]:
        """The rows of each span of the shard, from a cursor on; without spans, those of each run."""
        division = self.division(cast("Stage", stage.input), context)
        number, inner = at.numbered()
        runs = division.runs(self.shard, number)
        if division.has_spans:
            first = next(runs, None)
            starts_there = first is not None and first.number == number and first.place is None
            units = unit_at(first.source, inner) if first is not None and starts_there else 0
            runs = division.spans(self.shard, number, units)
        return (partial(self._numbered, division, run) for run in runs if run.number >= number)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        division = self.division(cast("Stage", stage.input), context)
        number, _ = at.numbered()
        row = at.row
        begin: Cursor | None = at
        for run in division.runs(self.shard, number):
            if run.number < number:
                continue
            for block in self._numbered(division, run, begin, row, context):
                row += len(block)
                output = [block]
                del block  # only the consumer holds it now
                yield output.pop()
            begin = None

    def _numbered(
        self, division: Division, run: PieceRun, at: Cursor | None, row: int, context: Context
    ) -> Iterator[Block]:
        """The rows of a run; the first has the number `row` in the shard."""
        number, start = (run.number, START) if at is None else at.numbered()
        for block in self._run(division, run, start if number == run.number else START, context):
            output = [block.numbered(run.number, row)]
            row += len(block)
            del block
            yield output.pop()

    def _run(self, division: Division, run: PieceRun, at: Cursor, context: Context) -> Iterator[Block]:
        # A random draw is keyed by shard and position, and positions begin at 0 in each run: it is a shard of its own.
        if run.place is None:
            return run.source.blocks(at, replace(context, shard=self.shard + run.number * self.shards))
        shared = replace(context, shard=-1 - run.place)
        others = division.sharers(self.shard, run.place, context.process.shards)
        return shared_rows(run.source, at, run.share, others, shared)
