"""Operators for the rows of a run after the number of ranks has changed in an epoch. Only a plan adds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import numpy as np

from ..core.block import Block
from ..core.context import Context, RowShare
from ..core.cursor import Cursor, Json, check_numbers
from ..core.gather import gather
from ..core.graph import Node
from ..core.meter import Meter
from ..core.operator import Input, Operator, Order, StageView
from ..core.rows import BlockRows, Indices, index_array
from ..engine.stage import Stage
from .items import Item
from .parts import Part, Segment
from .shard_operators import PlacedShard, RowsShard
from .shared_reading import request_of, shared_rows


@dataclass(frozen=True)
class RowsOfShards(PlacedShard):
    """Rows of an indexed input that some shards of the first division have.

    Attributes:
        parts: the operator of each shard, and first and stop of its rows that are here.
        stream: the number of the stream.
    """

    parts: tuple[tuple[RowsShard, int, int], ...]
    stream: str | None

    def length(self, stage: StageView) -> int:
        return sum(stop - first for _, first, stop in self.parts)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        def part(number: int, places: Indices) -> BlockRows:
            shard, first, _ = self.parts[number]
            return list(index_array(shard.places(stage, index_array(places) + first, context)))

        return np.array(gather(indices, self._bounds(), part), np.int64)

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        def part(number: int, places: Indices) -> BlockRows:
            shard, first, _ = self.parts[number]
            if isinstance(places, range):
                places = range(places.start + first, places.stop + first, places.step)
                return shard.read(stage, places, context)
            return shard.read(stage, places + first, context)

        return gather(indices, self._bounds(), part)

    def _bounds(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.cumsum([0, *(stop - first for _, first, stop in self.parts)], dtype=np.int64)


@dataclass(frozen=True)
class RowsPart(Operator):
    """The rows of an indexed input in a part.

    Attributes:
        whole: the operator of a shard of the first division.
    """

    kind: ClassVar[str] = "deal"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    whole: RowsShard
    part: Part = field(repr=False, compare=False)

    def moves_skipped(self) -> bool:
        return True

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source = cast("Stage", stage.input)
        line = self.whole.line(source)
        segments = self.part.segments(context.rounds[0] if context.rounds else 0, line)
        parts = [(replace(self.whole, shard=shard), first, stop) for shard, first, stop in line.by_shard(segments)]
        rows = Stage(Node(RowsOfShards(tuple(parts), self.whole.stream), (source.node,)), stage.name, (source,))
        return rows.blocks(at, context)


@dataclass(frozen=True)
class StreamedPart(Operator):
    """The rows of a streamed input in a part, segment by segment.

    Attributes:
        of_shard: whether the run began as a shard of the first division: its tokens are then those of `StreamedShard`.
        shard: the number of the new shard, if the last segment is one of those that all new shards of a process read
            together.
        shards: how many new shards there are.
    """

    kind: ClassVar[str] = "deal_rows"
    order: ClassVar[Order] = Order.GLOBAL

    part: Part = field(repr=False, compare=False)
    stream: str
    dispatched: bool
    of_shard: bool
    shard: int | None
    shards: int

    def moves_skipped(self) -> bool:
        return True

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        if self.of_shard:
            yield stage.input, at.token
        else:
            number, given, source = cast("tuple[int, int, Json]", at.token or (0, 0, None))
            check_numbers(number, given)
            yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        segments = self.part.segments(context.rounds[0] if context.rounds else 0, None)
        if self.of_shard:
            number, given, plain = 0, at.row, at.token
        else:
            number, given, plain = cast("tuple[int, int, Json]", at.token or (0, 0, None))
        row = at.row
        for place in range(number, len(segments)):
            for block in self._segment(cast("Stage", stage.input), segments[place], given, plain, context):
                here = self._cursor(place, given, block.at, row)
                given, row = given + len(block), row + len(block)
                if context.meter is not None:
                    context.meter.note(self.stream, context.rounds, place, given, block.end.token)
                output = [Block(block.rows, here, self._cursor(place, given, block.end, row), block.origins)]
                del block  # only the consumer holds it now
                yield output.pop()
            given, plain = 0, None

    def _cursor(self, segment: int, given: int, source: Cursor, row: int) -> Cursor:
        return Cursor(source.token if self.of_shard else [segment, given, source.token], 0, row)

    def _segment(self, source: Stage, segment: Segment, given: int, plain: Json, context: Context) -> Iterator[Block]:
        """The rows of a segment without the first `given`; `plain` is a cursor of the input before them."""
        share = RowShare(segment.start % segment.step, segment.start % segment.step + 1, segment.step)
        first = segment.start // segment.step  # among the rows of the share
        stop = None if segment.length is None else first + segment.length
        if stop is not None and first + given >= stop:
            return
        at = Cursor(segment.cursor if plain is None else plain, 0, first + given)
        if self.dispatched and context.process.dispatched is not None:
            blocks = context.process.dispatched(request_of(source, at, share, context))
        else:
            blocks = shared_rows(source, at, share, self._others(segment, context), context.unsharded())
        for block in blocks:
            if stop is not None and block.at.position + len(block) >= stop:
                yield block.slice(0, stop - block.at.position)
                return
            yield block

    def _others(self, segment: Segment, context: Context) -> list[RowShare]:
        """The shares of the new shards in this process that read on from the same row."""
        if self.shard not in context.process.shards or segment.stop is not None or segment.step != self.shards:
            return []
        slots = [(segment.start + shard - self.shard) % self.shards for shard in context.process.shards]
        return [RowShare(slot, slot + 1, self.shards) for slot in slots]


@dataclass(frozen=True)
class ItemsInTurn(Operator):
    """The elements of one shard after a cut: those of its items, one after the other.

    Attributes:
        items: one for each input.
        tail_name: the name of the operator that leaves rows over.
    """

    kind: ClassVar[str] = "items"
    order: ClassVar[Order] = Order.GLOBAL

    items: tuple[Item, ...] = field(repr=False, compare=False)
    tail_name: str | None

    def moves_skipped(self) -> bool:
        return True

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        first, source, left = cast("tuple[int, Json, list[Json]]", at.token or (0, None, []))
        check_numbers(first, *(number for number, _ in cast("list[tuple[int, Json]]", left)))
        for number in range(first, len(self.items)):
            if self.items[number].leftover is None:
                resumed = number == first and at.token is not None
                yield stage.inputs[number], source if resumed else self.items[number].cursor

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        first, plain, left = cast("tuple[int, Json, list[Json]]", at.token or (0, None, []))
        meter = context.meter or Meter()
        row = at.row
        for number in range(first, len(self.items)):
            item = self.items[number]
            if number > first or at.token is None:
                meter.marks, plain = item.marks, item.cursor
            inner = replace(context, shard=item.origin, leftovers={}, meter=meter)
            for block in stage.inputs[number].blocks(Cursor.of(plain), inner) if item.leftover is None else ():
                here = Cursor([number, block.at.plain, left], 0, row)
                row += len(block)
                output = [Block(block.rows, here, Cursor([number, block.end.plain, left], 0, row), block.origins)]
                del block  # only the consumer holds it now
                yield output.pop()
            leftovers = [item.leftover] if item.leftover is not None else [b.at.plain for b in inner.leftovers.values()]
            if item.leftovers is None:  # the last group of a tail is given out, not left over
                left = [*left, *([number, leftover] for leftover in leftovers)]
        if left and self.tail_name is not None:
            context.leftovers[self.tail_name] = Block([], Cursor(left), Cursor(left))  # rows are read again
