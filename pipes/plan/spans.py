"""`ShardSpans`: a shard in source order as spans that several workers make in turn, each exactly as one would.

A span is a part of the units or rows below the operators of single rows. A worker makes its rows up to the last
operator that may change their number, and holds them. `SpanStart`, which the worker of the span before it sends, then
tells where they lie in the shard: the operators above run on from there, and see the numbers of rows that they would
see in one process. So elements, draws and cursors are those of the whole shard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from ..core.block import Block, nbytes, parted, split_block
from ..core.context import Context
from ..core.cursor import START, Cursor
from ..core.graph import Node, node_code
from ..core.operator import CursorOfInput, Order, Trait
from ..core.origins import Origins
from ..engine.stage import Stage
from ..errors import Origin, raise_interrupt
from ..ops.batch import Batch
from .sharding import UnitsShard, cursor_below
from .shards import RowsAt, SpanRows, StreamedShard

SPANS, MAX_SPAN_ROWS = 64, 256
"""The spans of an indexed input, and the most rows of one: a row may be an image that takes 10 ms."""
MAX_HELD_BYTES = 2**28
"""The rows of a span that a worker holds before its turn; it makes the rest in its turn."""


class SpanStart(NamedTuple):
    """Where a span begins in its shard.

    Attributes:
        row: the number of its first row, or of the first row that waits.
        element: the number of its first element.
        waiting: rows of the spans before it that wait for others to complete a group.
        skip: rows at its beginning that are taken already.
    """

    row: int = 0
    element: int = 0
    waiting: Sequence[Block] = ()
    skip: int = 0


@dataclass(frozen=True)
class ShardSpans:
    """The spans of a shard.

    Attributes:
        shard: its number.
        stage: its graph.
        top: the last operator that may change the number of rows; the rows of a span are made up to here.
        source: the stage whose rows or units the spans divide.
        batch: the stage that groups the rows, if there is one.
    """

    shard: int
    stage: Stage
    top: Stage
    source: Stage
    batch: Stage | None

    def begin(self, at: Cursor) -> tuple[Cursor, SpanStart]:
        """The cursor of `top` where a run begins that begins at `at`, and where its first span does."""
        below, element = at, at.position
        if self.batch is not None:
            below = Cursor.of(at.token)
            if self.batch.input.may_skip:  # the engine drops the batches to skip
                element = at.row
            else:
                below = below.advance(at.skip * self._size)
        if self.top.indexed:
            return below, SpanStart(below.position, element)
        return Cursor(below.token, 0, below.row), SpanStart(below.row, element, skip=below.skip)

    def cursor(self, below: Cursor, element: int) -> Cursor:
        """The cursor of element `element`, which begins at a row of `top`."""
        return below if self.batch is None else Cursor(below.plain, 0, element)

    def rows(self, at: Cursor, context: Context) -> Iterator[SpanRows]:
        """The rows of each span, from the one in which a cursor of `top` lies."""
        inner = self._source_cursor(at)
        if isinstance(self.source.op, UnitsShard):
            return self.source.op.spans(self.source, inner, context)
        return self._spans_of_rows(inner.position)

    def made(self, rows: SpanRows, at: Cursor | None, context: Context) -> Iterator[Block]:
        """The rows of `top` of one span, from a cursor of these on; None for its beginning."""

        def source_rows(inner: Cursor, given: Context) -> Iterator[Block]:
            begins = at is None and inner == START
            return rows(None if begins else inner, inner.row, given.with_rows({}))

        return self.top.blocks(at or START, context.with_rows({self.source: source_rows}))

    def with_origins(self, start: SpanStart, context: Context) -> SpanStart:
        """The start with the origins of the rows that wait, which another worker has made."""

        def origin(at: Cursor) -> Origin | None:
            with closing(context.replay()) as replay:
                block = next(self.top.blocks(at, replay), None)
            return block.origins[0] if block and block.origins else None

        def traced(block: Block) -> Block:
            origins = [origin(block.at.advance(row)) for row in range(len(block))]
            return replace(block, origins=Origins(origins, None if block.origins is None else block.origins.counts))

        waiting = [*map(traced, start.waiting)]
        return start._replace(waiting=waiting)

    def whole_groups(self, blocks: Sequence[Block]) -> tuple[list[Block], list[Block]]:
        """The rows of complete groups, and those after them."""
        if self.batch is None:
            return [*blocks], []
        left = sum(map(self.count, blocks)) % self._size
        whole, rest = [*blocks], deque[Block]()
        while whole:
            block = whole.pop()
            places = self._places(block)
            if len(places) <= left:
                left -= len(places)
                rest.appendleft(block)
                continue
            stop = places[len(places) - left - 1] + 1
            whole.append(block.slice(0, stop))
            if stop < len(block):
                rest.appendleft(block.slice(stop, len(block)))
            break
        return whole, [*rest]

    def elements(self, blocks: Sequence[Block]) -> int:
        """The number of elements that complete groups make."""
        return sum(map(len, blocks)) if self.batch is None else sum(map(self.count, blocks)) // self._size

    def count(self, block: Block) -> int:
        """The number of rows that groups are made of."""
        return len(self._places(block))

    def _places(self, block: Block) -> Sequence[int]:
        """The places of the rows that were not skipped."""
        assert self.batch is not None
        return parted(block.rows).places if self.batch.input.may_skip else range(len(block))

    @property
    def _size(self) -> int:
        assert self.batch is not None
        op = self.batch.op
        assert isinstance(op, Batch) and isinstance(op.size, int)
        return op.size

    def _source_cursor(self, at: Cursor) -> Cursor:
        """The cursor of `source` from which `top` goes on at a cursor of its own."""
        return cursor_below(self.top, at, lambda stage: stage is self.source)

    def _spans_of_rows(self, position: int) -> Iterator[SpanRows]:
        count = self.source.length or 0
        step = max(1, min(MAX_SPAN_ROWS, count // SPANS))
        for start in range(position - position % step, count, step):
            yield self._rows_between(start, min(start + step, count))

    def _rows_between(self, start: int, stop: int) -> SpanRows:
        source = self.source

        def rows(at: Cursor | None, row: int, context: Context) -> Iterator[Block]:
            begin = start if at is None else at.position
            part = Stage(Node(RowsAt(range(begin, stop)), (source.node,)), f"span of {source.name}", (source,))
            for block in part.blocks(START, context):
                at, end = (START.advance(begin + cursor.position) for cursor in (block.at, block.end))
                output = [Block(block.rows, at, end, block.origins)]
                del block
                yield output.pop()

        return rows


def spans_of(shard: int, stage: Stage) -> ShardSpans | str:
    """The spans of a shard, or the reason why one worker must make all of it."""
    batch: Stage | None = None
    top = stage
    while not _is_source(top):
        if batch is None and isinstance(top.op, Batch) and isinstance(top.op.size, int):
            batch = top
        elif not (isinstance(top.op, CursorOfInput) and top.one_for_one) or (batch is not None and top.may_skip):
            break
        top = top.input
    source = top
    while not _is_source(source):
        if len(source.inputs) != 1 or source.op.order is not Order.ROW_LOCAL or _needs_positions(source):
            node = source.node.inputs[0] if isinstance(source.op, StreamedShard) else source.node
            return f"`{node_code(node).lstrip('.')}` needs all rows before it in their order"
        source = source.input
    return ShardSpans(shard, stage, top, source, batch)


def _is_source(stage: Stage) -> bool:
    return stage.indexed or isinstance(stage.op, UnitsShard)


def _needs_positions(stage: Stage) -> bool:
    return stage.op.needs_positions and stage.op.trait is not Trait.TRANSPARENT


class Span:
    """One span, as its worker makes it.

    Attributes:
        next_start: where the next span begins; None as long as it is not known.
    """

    def __init__(self, spans: ShardSpans, rows: SpanRows, at: Cursor | None, context: Context, *, last: bool) -> None:
        self.next_start: SpanStart | None = None
        self._spans = spans
        self._at = at  # where the run begins, if it begins in this span
        self._last = last
        inner, self._clock = context.with_own_clock()
        self._rows = spans.made(rows, None if at is None else spans.begin(at)[0], inner)
        self._held: deque[Block] = deque()
        self._error: Exception | None = None
        self._ended = False
        self._start: SpanStart | None = None
        self._first_made: int | None = None  # the number of the first row, as the operators below count
        self._made = 0
        self._skip = 0

    def hold(self) -> None:
        """Make rows before their turn."""
        size = 0
        while size < MAX_HELD_BYTES and (block := self._make()) is not None:
            size += nbytes(block.rows)
            self._held.append(block)

    def begin(self, start: SpanStart) -> Cursor | None:
        """Begin where the span lies in the shard; return the cursor of its first element, None if it has no rows."""
        self._start, self._skip = start, start.skip
        held, self._held = self._held, deque()
        while held:
            self._hold_placed(held.popleft())
        while not self._held and (block := self._make()) is not None:
            self._hold_placed(block)
        if self._ended and self._error is None and not self._last:
            whole, waiting = self._spans.whole_groups([*start.waiting, *self._held])
            self._end(self._spans.elements(whole), waiting)
        first = next(chain(start.waiting, self._held), None)
        if first is not None:
            return self._spans.cursor(first.at, start.element) if self._at is None else self._at
        if self._error is not None:
            raise self._error
        return None

    def given(self, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows of `top` for the operators above."""
        block_size = context.block_size()
        for block in self._in_groups():
            yield from split_block(block, block_size)

    def _in_groups(self) -> Iterator[Block]:
        """The rows of complete groups; in the last span all rows."""
        assert self._start is not None, "a span begins before it gives rows"
        pending, whole = [*self._start.waiting], list[Block]()
        elements = 0
        while True:
            while self._held:
                pending.append(self._held.popleft())
                whole, pending = (pending, []) if self._last else self._spans.whole_groups(pending)
                elements += self._spans.elements(whole)
                while whole:
                    yield whole.pop(0)
            if (block := self._make()) is None:
                break
            self._hold_placed(block)
            del block
        if self._error is not None:
            raise self._error
        yield from pending if self._last else ()
        if self.next_start is None:
            self._end(elements, pending)

    def _end(self, elements: int, waiting: Sequence[Block]) -> None:
        """Note where the next span begins."""
        assert self._start is not None, "a span begins before it ends"
        row = self._start.row + sum(map(len, self._start.waiting)) + self._made - sum(map(len, waiting))
        self.next_start = SpanStart(row, self._start.element + elements, waiting, self._skip)

    def _hold_placed(self, block: Block) -> None:
        """Hold a block with the numbers that its rows have in the shard, without rows to skip."""
        assert self._start is not None, "a span begins before its rows have numbers"
        if self._first_made is None:
            self._first_made = block.at.position
        skipped = min(self._skip, len(block))
        self._skip -= skipped
        if skipped == len(block):
            return
        block = block.slice(skipped, len(block))
        if shift := self._start.row + sum(map(len, self._start.waiting)) - self._first_made:
            at, end = (cursor._replace(row=cursor.row + shift) for cursor in (block.at, block.end))
            block = replace(block, at=at, end=end)
        self._held.append(block)

    def _make(self) -> Block | None:
        """The next block of the span; None at its end, or at an error that comes in its turn."""
        if self._ended:
            return None
        block = None
        try:
            block = self._clock.next(self._rows)
        except Exception as error:
            raise_interrupt(error)
            self._error = error
        self._ended = block is None
        self._made += 0 if block is None else len(block)
        return block
