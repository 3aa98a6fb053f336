"""Operators for the rows of one shard: by position, row by row, and of what is left of one. Only a plan adds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block
from ..core.context import Context, RowShare, RowsRequest
from ..core.cursor import START, Cursor, Json
from ..core.graph import Node
from ..core.operator import Amount, Input, Operator, Order, StageView, amount_of_inputs
from ..core.rows import BlockRows, Indices, concat, index_array, take
from ..core.taken import Taken
from ..engine.seeds import Permutation
from ..engine.sharing import SharedRuns
from ..engine.stage import Stage
from .rests import Start

N = TypeVar("N", int, npt.NDArray[np.int64])
SpanRows: TypeAlias = Callable[["Cursor | None", int, Context], Iterator[Block]]
"""The rows of a span of a shard: from a cursor on, None for its beginning, whose first row has this number."""
NEIGHBOURS = 16
"""Rows that a shard takes in turn, if their order stays that of the source."""
RANGES, MAX_RANGE_ROWS = 1024, 1024
"""The ranges into which a random order divides the rows, and the most rows of one of them."""
PLACED_ROWS = 2**16
"""The rows of an indexed shard that are divided among ranks at a time: half a MiB of positions."""
MIN_SLICED_ROWS = 64
"""Shorter ranges are read by the positions of their rows: a slice costs more."""


class PlacedShard(Operator, ABC):
    """The base: a shard has the rows of an indexed input at some places, which can be computed."""

    kind: ClassVar[str] = "deal"
    order: ClassVar[Order] = Order.GLOBAL
    moves_skipped: ClassVar[bool] = True

    @abstractmethod
    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        """The positions in the input of the rows at `indices` of the shard."""

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, int(self.places(stage, range(index, index + 1), context)[0]), context.unsharded()

    def traced(
        self, stage: StageView, indices: Indices, context: Context
    ) -> Iterator[tuple[int, Indices, Indices | None, Context]]:
        (inner,) = (inner for _, _, inner in self.trace(stage, 0, context))
        yield 0, self.places(stage, indices, context), None, inner

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return self.read(stage, indices, context)

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices` of the shard."""
        return stage.input.rows(self.places(stage, indices, context), context.unsharded())


@dataclass(frozen=True, eq=False, repr=False)
class RemainingShard(PlacedShard):
    """Each `shards`-th of the rows of an indexed input that are left."""

    shards: int
    shard: int
    taken: Taken

    def length(self, stage: StageView) -> int:
        return len(range(self.taken.total + self.shard, _row_count(stage), self.shards))

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        beyond, shards = self.taken.beyond, self.shards
        first = self.shard + (0 if beyond else self.taken.total)
        numbers: Indices
        if isinstance(indices, range):
            numbers = range(first + indices.start * shards, first + indices.stop * shards, indices.step * shards)
        else:
            numbers = first + indices * shards
        if not beyond:
            return numbers
        left, after = cast("Stage", stage.input).memo(("left", self.taken), self.taken.left)
        numbers = index_array(numbers)
        return np.where(numbers < len(left), left[np.minimum(numbers, len(left) - 1)], numbers - len(left) + after)


@dataclass(frozen=True, eq=False, repr=False)
class RowsAt(PlacedShard):
    """The rows of an indexed shard at some positions; random draws are those of the shard."""

    kind: ClassVar[str] = "part"

    positions: Indices = field(repr=False)

    def length(self, stage: StageView) -> int:
        return len(self.positions)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return rows_at(self.positions, indices)

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, int(self.places(stage, range(index, index + 1), context)[0]), context

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows(self.places(stage, indices, context), context)


def rows_at(positions: Indices, indices: Indices) -> Indices:
    """The positions at some indices."""
    if isinstance(indices, range) and isinstance(positions, range):
        return positions[indices.start : indices.stop : indices.step]
    return index_array(positions)[index_array(indices)]


@dataclass(frozen=True, eq=False, repr=False)
class DrawsOf(PlacedShard):
    """The rows of an indexed input; random draws are those of a shard."""

    shard: int

    def length(self, stage: StageView) -> int:
        return _row_count(stage)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return indices

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, index, replace(context, shard=self.shard)

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows(indices, replace(context, shard=self.shard))


@dataclass(frozen=True, eq=False, repr=False)
class RowsShard(PlacedShard):
    """The base: one of `shards` shards that divide the rows of an indexed input."""

    shards: int
    shard: int

    @staticmethod
    @abstractmethod
    def count(rows: int, shards: int, shard: N) -> N:
        """The number of a shard's rows, if there are `rows`."""

    def length(self, stage: StageView) -> int:
        return self.count(_row_count(stage), self.shards, self.shard)


@dataclass(frozen=True, eq=False, repr=False)
class NeighboursShard(RowsShard):
    """Ranges of neighbouring rows of an indexed input, in the order of the input.

    The shards take ranges of `NEIGHBOURS` rows in turn, then one range of equal length each of the rest. Single rows in
    turn would follow the period of the data: of numbers after a filter for odd ones, one of two shards would get all.
    """

    @staticmethod
    def count(rows: int, shards: int, shard: N) -> N:
        rounds = _rounds(rows, shards)
        return rounds * NEIGHBOURS + PermutedShard.count(rows - rounds * NEIGHBOURS * shards, shards, shard)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        rounds, left = self._ranges(stage)
        in_rounds = rounds * NEIGHBOURS
        if isinstance(indices, range) and indices.step == 1 and indices.start >= in_rounds:
            return range(left + indices.start - in_rounds, left + indices.stop - in_rounds)
        at = index_array(indices)
        turns, inside = np.divmod(at, NEIGHBOURS)
        return np.where(at < in_rounds, (turns * self.shards + self.shard) * NEIGHBOURS + inside, left + at - in_rounds)

    def _ranges(self, stage: StageView) -> tuple[int, int]:
        """The number of ranges of the shard, and its first row after them."""
        rows = _row_count(stage)
        rounds = _rounds(rows, self.shards)
        in_rounds = rounds * NEIGHBOURS * self.shards
        return rounds, in_rounds + _first_row(rows - in_rounds, self.shards, self.shard)


@dataclass(frozen=True, eq=False, repr=False)
class PermutedShard(RowsShard):
    """Ranges of neighbouring rows of an indexed input, in a random order.

    The ranges are put in the order of the pass, and each shard has one span of all rows. The length of a range
    depends on the number of rows alone; a last range of fewer rows stays last.
    """

    @staticmethod
    def count(rows: int, shards: int, shard: N) -> N:
        return rows * (shard + 1) // shards - rows * shard // shards

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        rows = _row_count(stage)
        size = _range_size(rows)
        places = index_array(indices) + _first_row(rows, self.shards, self.shard)
        full = rows // size
        if not full:
            return places
        ranges, inside = np.divmod(places, size)
        order = self._order(stage, full, context)
        return np.where(ranges < full, order[np.minimum(ranges, full - 1)], ranges) * size + inside

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        size = _range_size(_row_count(stage))
        if not isinstance(indices, range) or indices.step != 1 or size < MIN_SLICED_ROWS:
            return super().read(stage, indices, context)
        # Range by range, so that the source can slice.
        begin = _first_row(_row_count(stage), self.shards, self.shard)
        first, stop = begin + indices.start, begin + indices.stop
        whole = context.unsharded()
        if first >= stop:
            return stage.input.rows(range(0), whole)
        cuts = np.array([first, *range(first - first % size + size, stop, size), stop])
        starts = index_array(self.places(stage, cuts[:-1] - begin, context)).tolist()
        lengths = np.diff(cuts).tolist()
        return concat([stage.input.rows(range(s, s + n), whole) for s, n in zip(starts, lengths, strict=True)])

    def _order(self, stage: StageView, ranges: int, context: Context) -> Permutation:
        whole = context.unsharded()
        key = (stage.name, whole.seed, whole.epoch, whole.rounds)
        # The input keeps it, so that all shards share it.
        return cast("Stage", stage.input).memo(key, lambda: Permutation(whole.key(stage.name), ranges))


def _row_count(stage: StageView) -> int:
    """The number of rows of an indexed input."""
    rows = stage.input.length
    assert rows is not None, "an indexed pipe knows its length"
    return rows


def _range_size(rows: int) -> int:
    """The length of the ranges that a random order divides the rows into."""
    return min(max(rows // RANGES, 1), MAX_RANGE_ROWS)


def _rounds(rows: int, shards: int) -> int:
    """The number of ranges that each shard has; a single shard reads all rows in one span."""
    return rows // (NEIGHBOURS * shards) if shards > 1 else 0


def _first_row(rows: int, shards: int, shard: int) -> int:
    """The first row of a shard, if `rows` rows are cut into `shards` spans of equal length."""
    return rows * shard // shards


@dataclass(frozen=True, eq=False, repr=False)
class StreamedShard(Operator):
    """The rows of a streamed input that belong to shard `shard` of `shards`, which take rows in turn.

    The shards of one process read the input together, once. If it is `dispatched`, one process reads it for all.
    """

    kind: ClassVar[str] = "deal_rows"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True
    moves_skipped: ClassVar[bool] = True

    shards: int
    shard: int
    dispatched: bool = False

    @staticmethod
    def count(rows: int, shards: int, shard: N) -> N:
        """The number of a shard's rows, if there are `rows`."""
        return (rows - shard + shards - 1) // shards

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        return None if rows is None else self.count(rows, self.shards, self.shard)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, at.token

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        return amount_of_inputs(self, stage, at, context, max(0, 1 + (at.skip - 1) * self.shards))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source = cast("Stage", stage.input)
        share = share_of(self.shard, self.shards)
        if self.dispatched and context.process.dispatched is not None:
            return context.process.dispatched(request_of(source, at, share, context))
        together = context.process.shards if context.shard == self.shard else ()
        others = [share_of(shard, self.shards) for shard in together]
        return shared_rows(source, at, share, others, context.unsharded())


def share_of(shard: int, shards: int) -> RowShare:
    """The rows of a shard, if all shards take rows in turn."""
    return RowShare(shard, shard + 1, shards)


@dataclass(frozen=True, eq=False, repr=False)
class RestOfShard(Operator):
    """The rows that are left at an edge of the graph of a shard, or a part of them, counted from 0.

    Attributes:
        start: where they begin.
        shards: the number of shards of the first division.
        of_rank: the number of shards that each rank had then; None if it is that of the ranks now.
        together: the shard to which each rest of the rank belongs, by number of the rest; empty if it has none; None
            if an edge behind has said so.
        tail_name: the name of the operator that leaves rows over, if the edge is behind it.
        at_hand: the rows themselves, if this process still has them; else they are read again.
    """

    kind: ClassVar[str] = "rest"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True
    moves_skipped: ClassVar[bool] = True

    start: Start = field(repr=False, compare=False)
    shards: int
    of_rank: int | None
    together: Mapping[int, int] | None = field(default_factory=dict, repr=False, compare=False)
    tail_name: str | None = None
    at_hand: BlockRows | None = field(default=None, repr=False, compare=False)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, self.start.after(at.token, at.skip).plain

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        return amount_of_inputs(self, stage, at, context)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        start, row = self.start, at.position
        if self.at_hand is not None and at.token is None:
            if row < len(self.at_hand):
                rows = take(self.at_hand, range(row, len(self.at_hand)))
                yield Block(rows, START.advance(row), START.advance(len(self.at_hand)))
            return
        if not start.weight:
            return
        inner = self._inner(context)
        begin = start.after(at.token, at.skip)
        if start.shares and stage.input.indexed:
            yield from self._by_position(cast("Stage", stage.input), begin.position, row, inner)
            return
        end = begin.position
        for block in stage.input.blocks(begin, inner):
            end = block.end.position
            places = start.places(block.at.position, len(block)) if start.shares else range(len(block))
            if not len(places):
                continue
            rows, origins = (block.rows, block.origins) if len(places) == len(block) else block.select(places)
            here, row = Cursor(block.at.plain, 0, row), row + len(places)
            output = [Block(rows, here, Cursor(block.end.plain, 0, row), origins)]
            del block, rows  # only the consumer holds them now
            yield output.pop()
        # What a shard leaves over belongs to the part that would have the next row.
        if self.tail_name in inner.leftovers and start.owns(end):
            context.leftovers[self.tail_name] = inner.leftovers[self.tail_name]

    def _by_position(self, source: Stage, first: int, row: int, context: Context) -> Iterator[Block]:
        """The rows from row `first` of an indexed input on, without those of other parts."""
        for start in range(first, source.length or 0, PLACED_ROWS):
            count = min(PLACED_ROWS, cast("int", source.length) - start)
            places = start + index_array(self.start.places(start, count))
            part = Stage(Node(RowsAt(places), (source.node,)), f"part of {source.name}", (source,))
            for block in part.blocks(START, context):
                own = places[block.at.position : block.end.position].tolist()
                at, end = (START.advance(place).plain for place in (own[0], own[-1] + 1))
                here, row = Cursor(at, 0, row), row + len(own)
                output = [Block(block.rows, here, Cursor(end, 0, row), block.origins)]
                del block
                yield output.pop()

    def _inner(self, context: Context) -> Context:
        """The context below the edge."""
        shard = self.start.draws(self.shards)
        if self.together is None:
            return replace(context, shard=shard, leftovers={})
        of_rank = self.of_rank or context.process.rank_shards
        process = replace(context.process, shards=(self.start.origin,), rank_shards=of_rank)
        if self.together:
            own = {self.together[number] for number in context.process.shards if number in self.together}
            process = replace(process, shards=tuple(own), rank_rests=tuple({*self.together.values()}))
        return replace(context, shard=shard, leftovers={}, process=process)


# Reads that the shards of a process share.


def shared_rows(
    source: Stage, at: Cursor, share: RowShare, others: Iterable[RowShare], context: Context
) -> Iterator[Block]:
    """The rows of `source` in a share, from a cursor of these rows on.

    `others` are the shares that other shards of this process read at about the same time.
    """
    return context.running.add(requested_rows(source, request_of(source, at, share, context), others, context))


def request_of(source: Stage, at: Cursor, share: RowShare, context: Context) -> RowsRequest:
    """The request for the rows of a share, from a cursor of these rows on."""
    cursor = Cursor.of(at.token)
    cursor = cursor.advance(share.position(at.position) - cursor.position)
    origins, others = context.tracing.origins, context.process.rank_rests
    return RowsRequest(source.name, cursor.plain, share, context.rounds, origins, others)


def requested_rows(
    source: Stage, request: RowsRequest, others: Iterable[RowShare], context: Context
) -> Iterator[Block]:
    """The rows of `source` that one shard requests; it reads them together with the shares `others`."""
    runs = context.process.resources.get(("shared", id(source)), lambda: SharedRuns(source))
    return runs.read(request.share, Cursor.of(request.at), others, context)
