"""`Sharding`: the places of a graph where rows are divided among shards, and the rows of a shard of units.

Sharding never changes what a pipe means: all shards together give the rows of `for x in pipe`. The rows are divided
behind the longest indexed part, or behind the last operator that looks at the position of a row among all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np

from ..core.block import Block
from ..core.context import Context, RowShare
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.graph import Node, find_remote, walk, with_inputs
from ..core.operator import Amount, Boundary, Input, Operator, Order, StageView, Weights, fill_unknown
from ..core.rows import BlockRows, Indices, index_array
from ..engine.run import check_cursor
from ..engine.seeds import Permutation
from ..engine.stage import Stage
from .divide import Line, Numbers, Part, Span, default_spans, divide
from .shards import (
    NeighboursShard,
    PermutedShard,
    PlacedShard,
    RowsPart,
    RowsShard,
    StreamedPart,
    StreamedShard,
    shared_rows,
)

RUNS_OF_PART = 2**40
"""The keys of the runs of a part begin at a multiple of this, far from those of all shards."""
MAX_SKEW = 16
"""Shards read a unit together if they reach it within this part of a share: what one of them has not asked for yet is
kept for it."""
NEAR_FOR_ROWS, NEAR = 64, 10
"""A cut nearer to the border of a unit than 1/64 of a share goes to the border if lengths are known: ranks then differ
by little. If they are not, 1/10 of a share is near, and fewer units are read by several shards."""


class SharedUnit(NamedTuple):
    """A unit whose rows several shards divide.

    Attributes:
        part: its part of the input.
        shards: the shards.
        reached: the work of each of them before it.
        near: shards of one process read the unit together if their work before it differs by no more than this.
    """

    part: float
    shards: Sequence[int]
    reached: Sequence[int]
    near: int

    def reads(self, processes: int) -> int:
        """The number of times that it is read."""
        reads, last = 0, (-1, 0)  # process and work before it, at the first shard of a read
        for process, reached in sorted(
            (s % processes, work) for s, work in zip(self.shards, self.reached, strict=True)
        ):
            if process != last[0] or reached - last[1] > self.near:
                reads, last = reads + 1, (process, reached)
        return reads


class SharedRead(NamedTuple):
    """An input that several shards read.

    Attributes:
        reason: why its rows are not divided.
        by_rank: one process reads it for all workers of a rank.
        repair: the advice to read less, if all shards read all of the input.
        can_dispatch: `dispatch()` would let one process of each rank read it.
        units: the units that several shards read; None if all shards read all of the input.
        size: the bytes of the files of the input, if they are known.
    """

    reason: str
    by_rank: bool = False
    repair: str = ""
    can_dispatch: bool = False
    units: Sequence[SharedUnit] | None = None
    size: int | None = None

    def times(self, world_size: int, workers: int) -> int:
        """The number of times that the same rows are read, at most."""
        processes = self._processes(world_size, workers)
        return processes if self.units is None else max(unit.reads(processes) for unit in self.units)

    def repeated(self, world_size: int, workers: int) -> float:
        """The part of the input that is read again; it may be above 1."""
        processes = self._processes(world_size, workers)
        if self.units is None:
            return processes - 1.0
        return sum(unit.part * (unit.reads(processes) - 1) for unit in self.units)

    def _processes(self, world_size: int, workers: int) -> int:
        return world_size * (1 if self.by_rank else max(1, workers))


class DividedStream(NamedTuple):
    """The data that is divided at one place of the graph: the rows of `node`, or the `units` that it expands."""

    node: Node
    shuffled_later: bool
    units: Node | None


@dataclass
class Sharding:
    """Builds the graphs of the shards of one graph.

    Attributes:
        shards: the number of shards.
        stages: the stages of the graph without shards; they know its lengths.
        names: the names of operators; nodes of the shards' graphs are added.
        shared_reads: the nodes whose output all shards read; `subgraph` adds them.
        expanded: the nodes that make many rows of each unit, with an operator that divides the units; likewise.
        streams: the divided streams, by number; likewise.
        parts: after a redivision, the parts of the streams that each origin reads; any other origin is a shard as at
            first.
        new_shards: after a redivision, the origins of the new shards.
    """

    shards: int
    stages: Mapping[Node, Stage]
    names: dict[Node, str]
    shared_reads: dict[Node, SharedRead] = field(default_factory=dict)
    expanded: dict[Node, UnitsShard] = field(default_factory=dict)
    streams: dict[str, DividedStream] = field(default_factory=dict)
    parts: Mapping[int, Mapping[str, Part]] = field(default_factory=dict)
    new_shards: range = range(0)
    _nodes: dict[tuple[object, ...], Node] = field(default_factory=dict)
    _stream_names: dict[DividedStream, str] = field(default_factory=dict)

    def subgraph(self, node: Node, shard: int, *, shuffled_later: bool = False) -> Node:
        """The graph below `node` that shard `shard` runs. Shards share the nodes that are the same for all of them.

        `shuffled_later` says that a shuffle follows and that no operator before it looks at positions or groups rows:
        units may then come in any order.
        """
        key = (node, shard, shuffled_later)
        return self._once(key, lambda: self._sharded(node, shard, shuffled_later=shuffled_later))

    def runs_per_shard(self, node: Node) -> bool:
        """Whether each shard runs `node` on its own rows."""
        if node.op.boundary is Boundary.SHARD:
            return False
        if has_user_boundary(node):
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
                points.add(node.inputs[0] if node.op.boundary is Boundary.SHARD else node)
                continue
            whole = node.op.order is Order.GLOBAL
            stack += [child for child in node.inputs if not whole or has_user_boundary(child)]
        return points

    def _once(self, key: tuple[object, ...], make: Callable[[], Node]) -> Node:
        if key not in self._nodes:
            self._nodes[key] = make()
        return self._nodes[key]

    def _sharded(self, node: Node, shard: int, *, shuffled_later: bool) -> Node:
        if node.op.boundary is Boundary.SHARD:
            return self._divided(node.inputs[0], shard, shuffled_later=shuffled_later)
        if not self.runs_per_shard(node):
            return self._divided(node, shard, shuffled_later=shuffled_later)
        if node.op.expands and (units := expanded_units(node)) is not None:
            return self._expanded(node, units, shard, shuffled_later=shuffled_later)
        inputs: list[Node] = []
        for source in node.inputs:
            if node.op.order is Order.GLOBAL and not has_user_boundary(source):
                reason = f"`{node.op.kind}` needs all of its rows beside an input that is divided among the shards"
                repair = f"put `shard_by_rank()` behind `{node.op.kind}`, so that its rows are divided"
                self.shared_reads[source] = SharedRead(reason, repair=repair)
                inputs.append(source)
            else:
                inputs.append(self.subgraph(source, shard, shuffled_later=shuffled_after(node, shuffled_later)))
        return self.rebuilt(node, tuple(inputs))

    def rebuilt(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """`node` with other inputs, under the same name."""
        rebuilt = with_inputs(node, inputs)
        self.names[rebuilt] = self.names[node]
        return rebuilt

    def shard_operator(
        self, node: Node, shard: int, *, shuffled_later: bool
    ) -> PermutedShard | NeighboursShard | StreamedShard:
        """The operator that gives a shard its rows of `node`."""
        stream = self.stream_name(DividedStream(node, shuffled_later, None))
        if node.indexed:
            permuted = shuffled_later and not reorders(node)
            return (PermutedShard if permuted else NeighboursShard)(self.shards, shard, stream)
        dispatched = any(below.op.boundary is Boundary.ONE_PROCESS for below in walk(node))
        return StreamedShard(self.shards, shard, dispatched, stream)

    def line(self, stream: DividedStream, context: Context) -> Line | None:
        """The places of a stream in the pass and round of `context`; None if they are not known."""
        node, later, units = stream
        if units is not None:
            op = self.units_shard(node, units, 0, shuffled_later=later)
            return op.line(self.stages[node], context)
        return self.shard_operator(node, 0, shuffled_later=later).line(self.stages[node])

    def stream_name(self, stream: DividedStream) -> str:
        """The number of a stream."""
        if stream not in self._stream_names:
            number = self._stream_names[stream] = str(len(self.streams))
            self.streams[number] = stream
        return self._stream_names[stream]

    def _part(self, op: RowsShard | StreamedShard, origin: int) -> RowsPart | StreamedPart:
        """The operator that gives an origin its rows; `op` is that of a shard."""
        assert op.stream is not None, "what is divided has a number"
        part = self.parts[origin].get(op.stream, Part())
        if isinstance(op, RowsShard):
            return RowsPart(op, part)
        of_shard = origin < self.shards
        shard = self.new_shards.index(origin) if origin in self.new_shards else None
        return StreamedPart(part, op.stream, op.dispatched, of_shard, shard, len(self.new_shards))

    def _divided(self, node: Node, shard: int, *, shuffled_later: bool) -> Node:
        """The rows of `node` that belong to a shard."""
        op = self.shard_operator(node, shard, shuffled_later=shuffled_later)
        if isinstance(op, StreamedShard) and self.shards > 1:
            reason = f"the rows of `{node.op.kind}` cannot be divided without reading all of them"
            by_rank = op.dispatched or find_remote(node) is not None
            repair = "write its rows to files once, such as with `write_parquet`, and read these"
            self.shared_reads[node] = SharedRead(reason, by_rank, repair, can_dispatch=not by_rank)
        return self._named(self._part(op, shard) if shard in self.parts else op, node)

    def units_shard(self, node: Node, units: Node, shard: int, *, shuffled_later: bool) -> UnitsShard:
        """The operator that gives a shard its rows if `node` makes many rows of each unit."""
        reordered = reorders(units)
        any_order = shuffled_later and not reordered
        near = NEAR_FOR_ROWS if self.stages[node].length is not None else NEAR
        stream = self.stream_name(DividedStream(node, shuffled_later, units))
        part = self.parts[shard].get(stream, Part()) if shard in self.parts else None
        return UnitsShard(self.shards, shard, any_order, any_order or reordered, near, stream, part)

    def _expanded(self, node: Node, units: Node, shard: int, *, shuffled_later: bool) -> Node:
        op = self.units_shard(node, units, shard, shuffled_later=shuffled_later)
        self.expanded[node] = op
        return self._named(op, node)

    def _named(self, op: Operator, *inputs: Node) -> Node:
        # The name is a key of randomness, so it must not depend on which shards a process runs.
        node = Node(op, inputs, inputs[0].call_site)
        self.names[node] = f"{op.kind} of {self.names[inputs[0]]}"
        return node


def has_user_boundary(node: Node) -> bool:
    """Whether the user sets the place of the division, at `node` or below."""
    return any(below.op.boundary is Boundary.SHARD for below in walk(node))


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
    if has_user_boundary(units):
        return None
    while not units.indexed:
        if units.op.boundary is Boundary.WORKERS:
            return None  # its rows come from a worker, in order
        expanded_before = units.op.expands and not node.op.needs_whole_units()
        if len(units.inputs) != 1 or units.op.order is not Order.ROW_LOCAL or expanded_before:
            return None
        units = units.inputs[0]
    return units


# The rows of a shard whose input makes many rows of each unit.


@dataclass(frozen=True)
class UnitsShard(Operator):
    """The rows of shard `shard` of `shards`, if the input makes many rows of each unit.

    Attributes:
        any_order: units come in a random order, which a shuffle after it allows.
        varies: the division differs between passes over the data.
        near: as for `divide`.
        stream: the number of the stream, under which a run notes what it has opened.
        part: the places that an open run reads; None for those of the shard. The `shard` of a run that is no shard of
            the first division is above the numbers of these.
    """

    kind: ClassVar[str] = "deal_units"
    order: ClassVar[Order] = Order.GLOBAL

    shards: int
    shard: int
    any_order: bool
    varies: bool
    near: int
    stream: str = "0"
    part: Part | None = None

    def moves_skipped(self) -> bool:
        return True

    def line(self, source: Input, context: Context) -> Line:
        """The pieces that the units of `source` are cut into, by shard, in the pass and round of `context`."""
        return self.division(cast("Stage", source), context).line()

    def division(self, rows: Stage, context: Context) -> Division:
        """The division of the units in the pass and the round of `context`."""
        run = (context.seed, context.epoch, context.rounds) if self.varies else ()
        key = ("division", self.shards, self.any_order, self.near, run)
        # The stage of the rows keeps it, so that all shards share it.
        return rows.memo(key, lambda: Division(rows, self.shards, context, any_order=self.any_order, near=self.near))

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
        spans = self._spans(division, context)
        weights = division.weights_of_line
        own = [weights[span.start : span.stop] for span in spans]
        before = np.concatenate([[0.0], np.cumsum(np.concatenate([np.zeros(0), *own]))])
        number, source = at.numbered()
        done, opened = 0.0, 0
        for run in division.runs(division.line().by_shard(spans), self.stream):
            if run.number > number:
                break
            share = 1.0
            if run.number == number:
                inner = source if run.place is None else Cursor.of(source.token)
                amount = run.source.amount_before(inner.advance(at.skip).plain, context)
                share = 0.0 if amount is None else amount.share
            done += share * float(before[run.stop] - before[opened])
            opened = run.stop
        return Amount(done, float(before[-1]))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        division = self.division(cast("Stage", stage.input), context)
        spans = self._spans(division, context)
        number, start = at.numbered()
        row = at.row
        for run in division.runs(division.line().by_shard(spans), self.stream):
            if run.number < number:
                continue
            if run.place is not None and context.opened is not None:
                context.opened.note(self.stream, context.rounds, 0, run.stop)
            for block in self._run(division, run, start if run.number == number else START, context):
                output = [block.numbered(run.number, row)]
                row += len(block)
                del block  # only the consumer holds it now
                yield output.pop()

    def _spans(self, division: Division, context: Context) -> list[Span]:
        """The places of the run in the pass and the round of `context`."""
        line = division.line()
        if self.part is None:
            return default_spans(line, self.shards, self.shard)
        return self.part.spans(context.rounds[0] if context.rounds else 0, line)

    def _run(self, division: Division, run: _PieceRun, at: Cursor, context: Context) -> Iterator[Block]:
        # A random draw is keyed by shard and position, and positions begin at 0 in each run: it is a shard of its own.
        if run.place is None:
            if self.shard >= self.shards:
                return run.source.blocks(at, replace(context, shard=self.shard * RUNS_OF_PART + run.number))
            return run.source.blocks(at, replace(context, shard=self.shard + run.number * self.shards))
        shared = replace(context, shard=-1 - run.place)
        if self.part is not None:
            return shared_rows(run.source, at, run.share, (), shared)
        others = division.sharers(self.shard, run.place, context.process.shards)
        return shared_rows(run.source, at, run.share, others, shared)


class Division:
    """The division of the units of one operator among the shards, in one round of one pass over the data.

    Attributes:
        pieces: those of each shard.
        weights: of the units by place.
        rows: of the units by place, if the weights are numbers of rows; below 0 if unknown.
        permutation: the units by place; None for the order of the source.
    """

    def __init__(self, rows: Stage, shards: int, context: Context, *, any_order: bool, near: int) -> None:
        self._units = units_of(rows)
        self._rows_op = rows.op
        # Without the stages themselves: `rows` keeps this object, and two that refer to each other are freed late.
        self._steps = [(stage.node, stage.name) for stage in _path(self._units, rows)]
        count = self._units.length or 0
        whole = context.unsharded()
        self.permutation = Permutation(whole.key(f"shuffle of {self._units.name}"), count) if any_order else None
        weights = self._units.weights(whole)
        self.rows: Numbers | None = None
        if weights is None:
            self.weights: Numbers = np.broadcast_to(np.int64(1), count)  # takes no memory
        else:
            by_place = slice(None) if self.permutation is None else self.permutation[range(count)]
            values = weights.values[by_place]
            self.weights = fill_unknown(values)
            self.rows = values if weights.are_rows else None
        self.pieces = divide(self.weights, shards, any_order=any_order, near=near)
        self._shared: dict[int, Stage] = {}

    def line(self) -> Line:
        """The pieces by shard."""
        pieces = self.pieces
        bounds = pieces.starts + pieces.rounds * np.arange(pieces.shards + 1)
        width = pieces.stop - pieces.first

        def weights() -> Numbers:
            return pieces.by_line(self.weights, self.weights[pieces.places] * width // pieces.slots)

        def rows() -> Numbers | None:
            if self.rows is None or (self.rows < 0).any():
                return None
            return pieces.by_line(self.rows, pieces.rows(self.rows))

        return Line(bounds, weights, rows)

    @cached_property
    def weights_of_line(self) -> Numbers:
        """The weights of all pieces by shard."""
        weights = self.line().weights
        assert weights is not None, "units have weights"
        return weights()

    def runs(self, parts: Sequence[tuple[int, int, int]], stream: str) -> Iterator[_PieceRun]:
        """The parts of a run that are read together, in order.

        Args:
            parts: shard, first and stop of each span of places, as `Line.by_shard` gives them.
            stream: the number of the stream, under which the run notes what it has opened.
        """
        number = opened = 0
        for shard, first, stop in parts:
            yield from self._runs_of_shard(shard, first, stop, stream, number, opened)
            number += 1 + len(self.pieces.of_shard(shard).places)
            opened += stop - first

    def _runs_of_shard(
        self, shard: int, start: int, end: int, stream: str, number: int, opened: int
    ) -> Iterator[_PieceRun]:
        """The runs of a span of places of one shard; `number` and `opened` count from the spans before it."""
        rounds, shards = self.pieces.rounds, self.pieces.shards
        before = opened - start  # what is open at place 0 of the shard
        in_rounds = range(shard + start * shards, shard + min(end, rounds) * shards, shards)
        if in_rounds:
            yield _PieceRun(number, opened + len(in_rounds), self._expanded(in_rounds, {}, stream, opened))
        table = self.pieces.of_shard(shard)
        places = table.places
        first, stop = max(0, start - rounds), max(0, end - rounds)
        shares = table.shares(slice(first, stop))
        before += rounds
        parts: dict[int, RowShare] = {}  # of the run that begins at `first`
        for index, share in enumerate(shares, first):
            if share.slots == 1 or self._can_cut(int(places[index]), share):
                if share.slots > 1:
                    parts[index - first] = share
                continue
            if first < index:
                source = self._expanded(places[first:index], parts, stream, before + first)
                yield _PieceRun(number + 1 + first, before + index, source)
            place = int(places[index])
            yield _PieceRun(number + 1 + index, before + index + 1, self._shared_stage(place), place, share)
            first, parts = index + 1, {}
        if first < stop:
            source = self._expanded(places[first:stop], parts, stream, before + first)
            yield _PieceRun(number + 1 + first, before + stop, source)

    def sharers(self, shard: int, place: int, shards: Sequence[int]) -> list[RowShare]:
        """The shares of a unit of those of `shards` that reach it at about the same time as `shard`."""
        pieces = self.pieces
        indices = np.flatnonzero(pieces.places == place)
        owners = np.searchsorted(pieces.starts, indices, "right") - 1
        reached = self._weight_before[indices] - self._weight_before[pieces.starts[owners]]
        own = reached[owners == shard][0]
        near = np.abs(reached - own) <= self._near
        return pieces.shares(indices[near & np.isin(owners, shards)])

    @property
    def _near(self) -> int:
        return int(self._weight_before[-1]) // (MAX_SKEW * self.pieces.shards)

    @cached_property
    def _weight_before(self) -> Numbers:
        """The weight of the pieces of the table before each of them, and of all."""
        pieces = self.pieces
        width = pieces.stop - pieces.first
        return np.concatenate([[0], np.cumsum(self.weights[pieces.places] * width // pieces.slots)])

    def _number(self, place: int) -> int:
        """The position of a unit in the source."""
        return place if self.permutation is None else int(self.permutation[range(place, place + 1)][0])

    def _can_cut(self, place: int, share: RowShare) -> bool:
        op = self._units.op
        if type(op).cut is Operator.cut or self._rows_op.needs_whole_units():
            return False
        number = self._number(place)
        (unit,) = self._units.rows(range(number, number + 1), Context())
        return op.cut(unit, share.first, share.stop, share.slots) is not None

    def shared_read(self) -> SharedRead | None:
        """The units whose rows several shards divide; None if there are none."""
        pieces = self.pieces
        cut = np.flatnonzero(pieces.slots > 1)
        if not len(cut):
            return None
        cut = cut[np.argsort(pieces.places[cut], kind="stable")]
        owners = np.searchsorted(pieces.starts, cut, "right") - 1
        places, firsts = np.unique(pieces.places[cut], return_index=True)
        total = max(1, int(self.weights.sum()))
        reached = self._weight_before[cut] - self._weight_before[pieces.starts[owners]]
        units: list[SharedUnit] = []
        largest, largest_part = 0, 0.0
        by_unit = zip(places.tolist(), np.split(owners, firsts[1:]), np.split(reached, firsts[1:]), strict=True)
        for place, of_unit, reached_by in by_unit:
            if self._can_cut(place, RowShare(0, 1, 2)):
                continue
            part = int(self.weights[place]) / total
            units.append(SharedUnit(part, of_unit.tolist(), reached_by.tolist(), self._near))
            if part > largest_part:
                largest, largest_part = place, part
        if not units:
            return None
        origin = self._units.origin(self._number(largest), Context())
        name = f"number {self._number(largest)}" if origin is None else str(origin)
        reason = (
            f"{len(units)} of the {len(self.weights)} inputs of `{self._rows_op.kind}` are divided row by row to make "
            f"the shards even (the largest is {name}, with {largest_part:.0%} of the work)"
        )
        return SharedRead(reason, units=units)

    def _shared_stage(self, place: int) -> Stage:
        if place not in self._shared:
            self._shared[place] = self._expanded(range(place, place + 1), {}, None)
        return self._shared[place]

    def _expanded(self, places: Indices, parts: Mapping[int, RowShare], stream: str | None, opened: int = 0) -> Stage:
        """The path from the units to their rows, for some of the units."""
        units = self._units
        chosen = ChosenUnits(places, self.permutation, parts, stream, opened)
        stage = Stage(Node(chosen, (units.node,)), f"deal of {units.name}", (units,))
        for step, name in self._steps:
            stage = Stage(Node(step.op, (stage.node,), step.call_site), name, (stage,))
        return stage


class _PieceRun(NamedTuple):
    """Pieces of a shard that are read together.

    Attributes:
        number: of the first of them in the shard; unit rounds count as one.
        stop: the places that are open when these are.
        source: the stage that makes their rows.
        place: of the unit whose rows several shards divide; None if the shard has all rows of `source`.
        share: the rows of that unit that the shard has.
    """

    number: int
    stop: int
    source: Stage
    place: int | None = None
    share: RowShare = RowShare(0, 1, 1)


@dataclass(frozen=True)
class ChosenUnits(PlacedShard):
    """The units at some places in the order of a pass; of a unit in `parts`, only these slots."""

    hands_out: ClassVar[bool] = True

    chosen: Indices = field(repr=False, compare=False)
    permutation: Permutation | None = field(repr=False, compare=False)
    parts: Mapping[int, RowShare] = field(repr=False, compare=False)
    stream: str | None = None
    opened_before: int = 0

    def length(self, stage: StageView) -> int:
        return len(self.chosen)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        if isinstance(indices, range) and isinstance(self.chosen, range):
            places: Indices = self.chosen[indices.start : indices.stop : indices.step]
        else:
            places = index_array(self.chosen)[index_array(indices)]
        return places if self.permutation is None else self.permutation[places]

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        weights = stage.input.weights(context.unsharded())
        if weights is None:
            return None
        values = weights.values[index_array(self.places(stage, range(len(self.chosen)), context))]
        for index, part in self.parts.items():
            values[index] = values[index] * (part.stop - part.first) // part.slots
        return Weights(values, weights.are_rows)

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        units = super().read(stage, indices, context)
        if not self.parts:
            return units
        return [self._part(stage.input.op, int(index), unit) for index, unit in zip(indices, units, strict=True)]

    def _part(self, op: Operator, index: int, unit: object) -> object:
        part = self.parts.get(index)
        return unit if part is None else op.cut(unit, part.first, part.stop, part.slots)


def _path(units: Stage, rows: Stage) -> list[Stage]:
    """The stages from behind `units` to `rows`."""
    path: list[Stage] = []
    stage = rows
    while stage is not units:
        path.append(stage)
        stage = stage.input
    return path[::-1]


def units_of(rows: Stage) -> Stage:
    """The indexed stage whose rows are expanded."""
    stage = rows
    while not stage.indexed:
        stage = stage.input
    return stage
