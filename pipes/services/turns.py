"""The order of elements: `run_shards` in one process or thread, `run_spans` and `Merge` over several workers.

It knows the plan, the turns of the shards and their positions. It does not know how a service runs its workers or how
elements travel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from ..core.block import AdaptiveBlockSize, Block, BlockSize, OneRow
from ..core.context import Context, Pacing, ProcessContext, RowsRequest, Tracer, Tracing
from ..core.cursor import START, Cursor, Json
from ..core.ending import ProcessResources
from ..core.origins import Account
from ..core.rows import BlockRows
from ..core.times import Clock, Times
from ..engine.run import empty_block
from ..errors import FeedpipeError, StateError, raise_interrupt
from ..plan.plan import Plan, Position, ShardRun
from ..plan.shards import SpanRows
from ..plan.spans import Span, SpanStart
from .base import ShardEnd, SpanEnd, Step


class Mode(NamedTuple):
    """How to run, beside the plan; `Context` explains the values."""

    block_sizes: Callable[[Clock], BlockSize] = AdaptiveBlockSize
    threads: bool = True
    tracer: Tracer | None = None
    dispatched: Callable[[RowsRequest], Iterator[Block]] | None = None
    remote: Callable[[object, Cursor, Context], Iterator[Block]] | None = None
    before_block: Callable[[], None] | None = None
    times: Times | None = None


DEFAULT = Mode()
DEBUG = Mode(OneRow, threads=False)


def turn_order(cursors: Mapping[int, Cursor]) -> list[int]:
    """The shards in the order of their turns: fewest elements first, then by number."""
    return sorted(cursors, key=lambda shard: (cursors[shard].position, shard))


def run_shards(
    plan: Plan,
    parts: Sequence[ShardRun],
    epoch: int,
    mode: Mode,
    resources: ProcessResources,
    shards: tuple[int, ...] = (),
) -> Generator[Step | ShardEnd, None, list[ShardEnd]]:
    """The elements of all parts, one of each in turn, and the end of each shard; returns all ends.

    The caller closes `resources`, which all shards of the process share. `shards` are those of the process, if other
    threads run some of them.
    """
    by_shard = {part.shard: part for part in parts}
    numbers = shards or tuple(by_shard)
    turns: deque[_Shard] = deque()
    ends: list[ShardEnd] = []
    with ExitStack() as running:
        for number in turn_order({number: part.at for number, part in by_shard.items()}):
            part = by_shard[number]
            resumed = part.at != START or number == plan.tail_shard
            context = shard_context(plan, part, numbers, epoch, mode, resources)
            turns.append(_Shard(part, context, mode.before_block, plan.accounts, resumed=resumed))
            running.callback(turns[-1].close)
        while turns:
            shard = turns.popleft()
            step = shard.step()
            if step is not None:
                yield step
                del step
                turns.append(shard)
                continue
            ends.append(shard.end(plan.tail_name))
            yield ends[-1]
    return ends


def step_count(plan: Plan, parts: Iterable[ShardRun]) -> int | None:
    """The steps of `run_shards`, if it makes them all; None if only a run can tell."""
    if not plan.indexed:
        return None
    return sum((part.stage.length or 0) - part.at.position for part in parts)


def run_rank(
    plan: Plan,
    position: Position,
    epoch: int,
    mode: Mode,
    resources: ProcessResources,
    begin_parts: Callable[[Position, list[ShardRun], bool], None] | None = None,
) -> Generator[Step | ShardEnd]:
    """The elements of all shards of the rank from a position on, and then of the tail.

    `begin_parts` gets what runs next, and whether that is the tail.
    """
    parts = plan.parts(position)
    if begin_parts is not None:
        begin_parts(position, parts, False)
    ends = yield from run_shards(plan, parts, epoch, mode, resources)
    position = position._replace(ended={**position.ended, **{end.shard: end.leftover for end in ends}})
    tail = plan.tail(position, {end.shard: end.rows for end in ends if end.rows is not None})
    if tail is not None:
        if begin_parts is not None:
            begin_parts(position, [tail], True)
        yield from run_shards(plan, [tail], epoch, mode, resources)


def shard_context(
    plan: Plan, part: ShardRun, shards: tuple[int, ...], epoch: int, mode: Mode, resources: ProcessResources
) -> Context:
    return Context(
        seed=plan.seed,
        epoch=epoch,
        shard=plan.draws_of(part.shard),
        pacing=Pacing(mode.block_sizes, Clock(mode.times)),
        process=ProcessContext(
            shards,
            resources,
            mode.dispatched,
            mode.threads,
            rank_shards=len(plan.rank_shards),
            remote=mode.remote,
        ),
        tracing=Tracing(mode.tracer is not None, bool(plan.accounts and not plan.indexed), mode.tracer),
    )


_NO_ROW = object()


class _Shard:
    """The elements of one shard, each with the cursor after it."""

    def __init__(
        self,
        part: ShardRun,
        context: Context,
        before_block: Callable[[], None] | None,
        accounts: Sequence[Account],
        *,
        resumed: bool,
    ) -> None:
        self._number = part.shard
        self._begins_by_cursor = resumed
        self._context = context
        self._before_block = before_block
        self._blocks = part.stage.blocks(part.at, context)
        self._rows: Iterator[object] = iter(())
        self._block: Block | None = None
        self._at = part.at  # the cursor of the next block
        self._taken = 0
        self._accounts = accounts if context.tracing.counts else ()
        self._counts: list[int] = []  # of the rows of the block

    def close(self) -> None:
        self._context.running.close()

    def end(self, tail_name: str | None) -> ShardEnd:
        """The end of the shard, after the last step."""
        leftover = self._context.leftovers.get(tail_name or "")
        if leftover is None:
            return ShardEnd(self._number)
        # A run from the cursor finds their counts again.
        return ShardEnd(self._number, leftover.at.plain, None if self._accounts else leftover.rows)

    def step(self) -> Step | None:
        """The next element, or None after the last one."""
        row = next(self._rows, _NO_ROW)
        if row is _NO_ROW:
            self._block, self._rows = None, iter(())  # frees the old block before there is a new one
            if self._before_block is not None:
                self._before_block()
            self._block = self._next_block()
            if self._block is None:
                return None
            self._taken = 0
            self._rows = iter(self._block.rows)
            if self._accounts:
                self._counts = _packed(self._block, self._accounts)
            row = next(self._rows, _NO_ROW)
            if row is _NO_ROW:
                raise empty_block()
        block = self._block
        assert block is not None, "a row belongs to a block"
        self._taken += 1
        if self._taken == len(block.rows):
            cursor = [*block.end]
        else:
            token, skip, first = block.at
            cursor = [token, skip + self._taken, first]
        if self._counts:
            cursor.append(self._counts[self._taken - 1])
        return Step(row, self._number, cursor)

    def _next_block(self) -> Block | None:
        try:
            block = self._context.pacing.clock.next(self._blocks)
        except FeedpipeError as error:
            error.place = self._number, self._at.plain
            raise
        except Exception as error:
            raise_interrupt(error)
            if not self._begins_by_cursor:
                raise
            # A function of the user fails with a `FeedpipeError`, so this is a cursor that does not fit the pipe.
            raise StateError(
                f"`position` of the state does not fit this pipe: shard {self._number} cannot begin there: {error!r}"
            ) from error
        self._begins_by_cursor = False
        if block is not None:
            self._at = block.end
        return block


def _packed(block: Block, accounts: Sequence[Account]) -> list[int]:
    """The numbers of the ledger for each element of a block."""
    counts = None if block.origins is None else block.origins.counts
    return [0] * len(block) if counts is None else counts.packed(accounts)


# Several workers.


class Assignment(NamedTuple):
    """What one worker of a run still has to do. It consists of plain values, so it can travel to the worker.

    Attributes:
        position: where the shards stand.
        worker, workers: the number of this worker, and how many there are.
        delivered: elements of an indexed pipe that this worker has delivered since `position`.
        in_tail: whether the worker runs the leftovers of all shards, and not its own shards.
        span: if the workers make the spans of one shard in turn, the next one of this worker, counted from the span of
            `position`, and the cursor of the shard from which it goes on, None from the beginning of the span.
    """

    position: Position
    worker: int
    workers: int
    delivered: int = 0
    in_tail: bool = False
    span: tuple[int, Json] | None = None

    def parts(self, plan: Plan, leftovers: Mapping[int, BlockRows] = MappingProxyType({})) -> list[ShardRun]:
        """The parts to run, for `run_shards`; `leftovers` saves the tail from reading these rows again."""
        if self.in_tail:
            tail = plan.tail(self.position, leftovers)
            return [] if tail is None else [tail]
        parts = plan.parts(self.position, self.worker, self.workers)
        return [replace(part, at=START.advance(self.delivered)) for part in parts] if plan.indexed else parts

    def next_element(self, plan: Plan) -> str:
        """Describe the element that the worker produces next."""
        if plan.indexed:
            element = plan.rank + plan.world_size * (self.worker + self.delivered * self.workers)
            left, after = self.position.taken.left()
            place = left[element] if element < len(left) else after + element - len(left)
            return f"element {place} of the epoch"
        if self.span is not None:
            number, cursor = self.span
            where = f"span {number}" if cursor is None else f"element {Cursor.of(cursor).position}"
            return f"{where} of shard {plan.rank}"
        if self.in_tail:
            cursors = {plan.tail_shard: self.position.cursor(plan.tail_shard)}
        else:
            cursors = plan.running(self.position, self.worker, self.workers)
        if not cursors:
            return "nothing"
        shard = turn_order(cursors)[0]
        return f"element {cursors[shard].position} of shard {shard}"


Item: TypeAlias = Step | ShardEnd | SpanEnd


class NextSpan(NamedTuple):
    """Where a span begins, for the worker that makes it."""

    span: int
    start: SpanStart


def run_spans(
    plan: Plan,
    assignment: Assignment,
    epoch: int,
    mode: Mode,
    resources: ProcessResources,
    wait_for_start: Callable[[int], SpanStart],
) -> Generator[Item | NextSpan]:
    """The elements of each span of a worker, and where the next span begins as soon as that is known."""
    spans = plan.running_spans(assignment.position)
    assert spans is not None and assignment.span is not None, "only spans are assigned one by one"
    begin = assignment.position.cursor(spans.shard)
    next_own, cursor = assignment.span

    def context() -> Context:
        return shard_context(plan, ShardRun(spans.shard, spans.stage, begin), (spans.shard,), epoch, mode, resources)

    is_empty = True
    for number, rows, last in _numbered(spans.rows(spans.begin(begin)[0], context())):
        is_empty = False
        if number < next_own or number % assignment.workers != assignment.worker:
            continue
        at = begin if number == 0 else None
        if number == next_own and cursor is not None:
            at = Cursor.of(cursor)
        own = context()
        span = Span(spans, rows, at, own, last=last)
        shard: _Shard | None = None
        try:
            if at is None and mode.tracer is None:  # which follows each row to the element that it becomes
                span.hold()
            start = wait_for_start(number) if at is None else spans.begin(at)[1]
            if mode.tracer is not None:
                start = spans.with_origins(start, own)
            first = span.begin(start)
            if is_known := span.next_start is not None:
                yield NextSpan(number + 1, span.next_start)
            if first is not None:
                part = ShardRun(spans.shard, spans.stage, first)
                shard = _Shard(
                    part,
                    own.with_rows({spans.top: span.given}),
                    mode.before_block,
                    plan.accounts,
                    resumed=at not in (None, START),
                )
                while (step := shard.step()) is not None:
                    yield step
                    del step
            if span.next_start is not None and not is_known:
                yield NextSpan(number + 1, span.next_start)
            if last:
                yield ShardEnd(spans.shard) if shard is None else shard.end(plan.tail_name)
            else:
                yield SpanEnd(number)
        finally:
            own.running.close()
    if is_empty and assignment.worker == 0:
        yield ShardEnd(spans.shard)


def _numbered(spans: Iterator[SpanRows]) -> Iterator[tuple[int, SpanRows, bool]]:
    """Each span with its number, and whether it is the last."""
    number, rows = 0, next(spans, None)
    while rows is not None:
        following = next(spans, None)
        yield number, rows, following is None
        number, rows = number + 1, following


Receive: TypeAlias = Callable[[int], Item]
"""Waits for the next item of a worker, by its number, and raises the worker's error. Each worker runs the parts of its
assignment with `run_shards`, and its items arrive in that order."""


class Merge:
    """One run of a plan by several workers, from `position` on.

    A shard belongs to one worker, so it is enough to know whose turn it is. The merge tracks where the consumer
    stands; a service that restarts a worker gets its assignment here. `leftovers` has rows of shards that have ended,
    if the service hands them over with `ShardEnd`.
    """

    def __init__(self, plan: Plan, position: Position, workers: int) -> None:
        self.leftovers: dict[int, BlockRows] = {}
        self._plan = plan
        self._workers = workers
        self._start = position
        self._cursors, self._ended = dict(position.cursors), dict(position.ended)  # where the consumer stands
        self._delivered = [0] * workers
        self._in_tail = False
        self.in_spans = workers > 1 and plan.running_spans(position) is not None
        self._next_spans: list[tuple[int, Json]] = [(worker, None) for worker in range(workers)]

    def run(self, receive: Receive, start_tail: Callable[[], None]) -> Generator[Step | ShardEnd]:
        """The items of all shards and then of the tail, in the order of the plan.

        `start_tail` starts worker 0 on its new assignment, the tail. All shards have ended then.
        """
        yield from self._span_by_span(receive) if self.in_spans else self._in_order(receive, self._owners())
        if self._plan.tail(self._position) is not None:
            self._in_tail = True
            start_tail()
            yield from self._in_order(receive, {self._plan.tail_shard: 0})

    def assignment(self, worker: int, received: Iterable[Item] = ()) -> Assignment:
        """What is left for `worker` to do, after items that have arrived from it and are still to be consumed."""
        if self.in_spans and not self._in_tail:
            span = self._next_spans[worker]
            for item in received:
                span = self._span_after(span, item)
            return Assignment(self._start, worker, self._workers, span=span)
        cursors, ended = dict(self._cursors), dict(self._ended)
        delivered = self._delivered[worker]
        for item in received:
            delivered += isinstance(item, Step)
            self._record(cursors, ended, item)
        position = self._start._replace(cursors=cursors, ended=ended)
        return Assignment(position, worker, self._workers, delivered, self._in_tail)

    @property
    def _position(self) -> Position:
        return self._start._replace(cursors=self._cursors, ended=self._ended)

    def _owners(self) -> dict[int, int]:
        """The worker of each shard that still runs, in the order of their turns."""
        cursors: dict[int, Cursor] = {}
        owners: dict[int, int] = {}
        for worker in range(self._workers):
            running = self._plan.running(self._position, worker, self._workers)
            cursors |= running
            owners |= dict.fromkeys(running, worker)
        return {shard: owners[shard] for shard in turn_order(cursors)}

    def _in_order(self, receive: Receive, owners: dict[int, int]) -> Iterator[Step | ShardEnd]:
        """Continue the turns of `run_shards` over all workers; `owners` begins with the shard whose turn is next."""
        turns = deque(owners)
        while turns:
            shard = turns.popleft()
            item = self._receive(receive, owners[shard])
            assert not isinstance(item, SpanEnd), "this run has no spans"
            if isinstance(item, Step):
                turns.append(shard)
            yield item
            del item  # the consumer may drop the element before it asks for the next one

    def _span_by_span(self, receive: Receive) -> Iterator[Step | ShardEnd]:
        span = 0
        while True:
            item = self._receive(receive, span % self._workers)
            if isinstance(item, SpanEnd):
                span += 1
                continue
            yield item
            if isinstance(item, ShardEnd):
                return
            del item

    def _receive(self, receive: Receive, worker: int) -> Item:
        """The next item of a worker; from here on the consumer has it."""
        item = receive(worker)
        self._record(self._cursors, self._ended, item)
        if self.in_spans and not self._in_tail:
            self._next_spans[worker] = self._span_after(self._next_spans[worker], item)
        if isinstance(item, Step):
            self._delivered[worker] += 1
        elif isinstance(item, ShardEnd) and item.rows is not None:
            self.leftovers[item.shard] = item.rows
        return item

    def _span_after(self, span: tuple[int, Json], item: Item) -> tuple[int, Json]:
        """What a worker makes after an item, if it makes `span` before."""
        if isinstance(item, Step):
            return span[0], item.cursor
        return span[0] + self._workers, None

    def _record(self, cursors: dict[int, Json], ended: dict[int, Json], item: Item) -> None:
        if self._plan.indexed or isinstance(item, SpanEnd):
            return  # `_delivered` says where the consumer stands
        if isinstance(item, Step):
            cursors[item.shard] = item.cursor
        else:
            ended[item.shard] = item.leftover


class PrefetchLimit:
    """Counts the elements that the consumer has not taken yet, and limits them.

    Two are enough if elements are produced as evenly as they are consumed. A windowed shuffle, however, produces many
    at once and then none for a while: if its worker waits for the consumer, the consumer soon waits for the worker. So
    the limit doubles whenever the consumer has taken all elements although the worker had reached the limit.

    A fixed `prefetch` is not adapted. One element alone may hold more than `most_bytes`.
    """

    MIN_ELEMENTS, MAX_ELEMENTS = 2, 64
    MAX_BYTES = 2**25
    """More bytes do not pay: the elements would no longer fit into the processor's cache."""
    SPAN_BYTES = 2**28
    """Workers that make spans in turn keep a whole span ready, if it has no more bytes."""

    def __init__(self, prefetch: int | None, most_bytes: float = inf) -> None:
        self.waiting = 0
        self._prefetch = prefetch
        self._all_bytes = most_bytes
        self._in_spans: bool | None = None
        self.begin(in_spans=False)

    def begin(self, *, in_spans: bool) -> None:
        """Begin a run; the limit stays that of the last one if it was of the same kind."""
        if in_spans == self._in_spans:
            return
        self._in_spans = in_spans
        self._adapts = self._prefetch is None and not in_spans
        self._most_bytes = min(self._all_bytes, self.SPAN_BYTES) if in_spans else self._all_bytes
        self._limit: float = self._prefetch or (inf if in_spans else self.MIN_ELEMENTS)
        self._was_full = False
        self._largest_bytes = 0

    def is_full(self) -> bool:
        """Whether the worker has to wait for the consumer."""
        return self.waiting >= self._limit or (
            self.waiting > 0 and (self.waiting + 1) * self._largest_bytes > self._most_bytes
        )

    def add(self, nbytes: int) -> None:
        """Count one finished element."""
        self.waiting += 1
        self._largest_bytes = max(self._largest_bytes, nbytes)
        self._was_full |= self.is_full()

    def remove(self, count: int) -> None:
        """Count elements that the consumer has taken."""
        self.waiting -= count
        if self._adapts and self._was_full and not self.waiting:
            doubled = min(2 * self._limit, self.MAX_ELEMENTS)
            if doubled * self._largest_bytes <= self.MAX_BYTES:
                self._limit = doubled
            self._was_full = False
