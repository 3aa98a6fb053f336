"""Work before its turn: calls ahead, reading ahead, and a thread that makes blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol, TypeVar, cast
from weakref import ref

import numpy as np

from ..core.block import Block, BlockSize
from ..core.context import Call, Context, StartedKey, Work
from ..core.ending import RunEnded
from ..core.operator import Input, Operator, Source, StageView, Trait
from ..core.rows import BlockRows
from ..core.times import Clock, times_of_input, waiting
from ..errors import LoaderError
from .calls import AheadLimit

MAX_ROWS_TRACED = 8192
"""About the most rows that are traced ahead to find calls."""


def call_ahead(
    stage: _Calling, indices: range, context: Context, block_size: BlockSize
) -> Generator[Block, None, None]:
    """The rows at `indices` of an indexed stage; the calls for the next rows are begun.

    Calls are begun for several rows together, so that their inputs are read together. At least one row is prepared
    ahead, even if it alone needs more calls than may be made ahead. A block waits only for the calls of its first row;
    its further rows have no calls, or finished ones. These are a quarter of the calls at most, so that others still run
    while the consumer has the block.
    """
    context = replace(context, started={})
    calls = _CallsAhead(stage, indices, context)
    start = indices.start
    try:
        while start < indices.stop:
            calls.begin()
            # No other shard gets a unit of work that this one has taken, so it comes alone.
            stop, count, started = calls.take(start + (1 if stage.op.trait is Trait.DEALS_UNITS else block_size.rows()))
            context.started.update(started)
            block: list[Block] = []
            failure: list[Exception] = []
            try:
                block.append(stage.block(start, stop, context))
            except Exception as error:
                if stop - start == 1:
                    raise
                failure.append(error)
            if failure:  # not within `except`, as in `Stage`
                context.started.update(started)  # their results serve again, so no function is called twice
                yield from stage.one_by_one(range(start, stop), context, failure.pop())
            context.started.clear()
            del started  # only the consumer holds results now
            block_size.produced(block[0].rows)
            calls.measure(block[0].rows, count)
            yield block.pop()
            start = stop
    finally:
        calls.cancel()


class _CallsAhead:
    """The calls for the next of the rows at `indices`: begun for some of them, and taken with blocks of rows."""

    def __init__(self, stage: _Calling, indices: range, context: Context) -> None:
        self._stage = stage
        self._indices = indices
        self._context = context
        self._limit = AheadLimit(stage.calls_ahead, context)
        self._first = self._traced = indices.start  # the next row to take, and the next to trace
        self._rows: deque[tuple[int, list[StartedKey]]] = deque()  # rows between them that have calls
        self._calls: dict[StartedKey, Call] = {}
        self._begun = 0

    def begin(self) -> None:
        """Begins the calls that may be made ahead now, if these are more than a few."""
        first, most = self._first, self._limit.calls
        if self._begun > most * 3 // 4 and self._traced - first > 1:
            return
        # Tracing takes time, so it reaches further ahead only when rows have been taken: the first block comes at once.
        end = first + most + min(first - self._indices.start, MAX_ROWS_TRACED)
        calls: list[_PlannedCall] = []
        while self._traced < self._indices.stop:
            if self._traced - first > 1 and (self._begun >= most or self._traced >= end):
                break
            if own := list(_calls(self._stage, self._traced, self._context)):
                self._rows.append((self._traced, [call.key for call in own]))
                self._begun += len(own)
                calls += own
            self._traced += 1
        self._calls |= _start(calls)

    def take(self, stop: int) -> tuple[int, int, dict[StartedKey, Call]]:
        """The end of the next block, at most `stop`; the number of calls of its rows; and those that are begun."""
        first = self._first
        stop = min(stop, self._traced)
        count = 0
        taken: dict[StartedKey, Call] = {}
        while self._rows and self._rows[0][0] < stop:
            row, keys = self._rows[0]
            calls = {key: self._calls[key] for key in keys if key in self._calls}
            if row > first:
                are_done = len(calls) == len(keys) and all(call.is_done() for call in calls.values())
                if not are_done or count + len(keys) > self._limit.calls // 4:
                    stop = row
                    break
            elif len(calls) < len(keys):
                stop = row + 1
            self._rows.popleft()
            for key in calls:
                del self._calls[key]
            taken |= calls
            count += len(keys)
        self._begun -= count
        self._first = stop
        return stop, count, taken

    def measure(self, rows: BlockRows, count: int) -> None:
        """Adapts the limit of calls ahead to `rows`, which needed `count` calls."""
        if count:
            self._limit.measure(rows, count)

    def cancel(self) -> None:
        for call in self._calls.values():
            call.cancel()


def _calls(stage: _Calling, index: int, context: Context) -> Iterator[_PlannedCall]:
    """The calls that row `index` of a stage needs; none if it cannot be traced, for then `rows` raises the error."""
    if stage.op.calls_ahead():
        yield _PlannedCall(stage, index, context)
    elif stage.calls_ahead and not isinstance(stage.op, Source):
        with suppress(Exception):
            for source, row, inner in stage.op.reads(stage, index, context):
                yield from _calls(cast("_Calling", source), row, inner)


def _start(calls: list[_PlannedCall]) -> dict[StartedKey, Call]:
    """Begins calls, those of one stage together. Rows that cannot be read get none: `rows` raises their error."""
    groups: dict[tuple[object, ...], dict[int, _PlannedCall]] = {}
    for call in calls:
        context = call.context
        group = call.stage, context.seed, context.epoch, context.rounds, context.shard
        groups.setdefault(group, {})[call.row] = call
    begun: dict[StartedKey, Call] = {}
    for together in groups.values():
        first = next(iter(together.values()))
        with suppress(Exception):
            started = first.stage.op.start_calls(first.stage, np.array(list(together)), first.context)
            begun.update(zip((call.key for call in together.values()), started, strict=True))
    return begun


class _PlannedCall(NamedTuple):
    """A row of a stage whose function is called ahead."""

    stage: _Calling
    row: int
    context: Context

    @property
    def key(self) -> StartedKey:
        return self.context.started_key(self.stage, self.row)


class _Calling(Input, StageView, Protocol):
    """The part of a stage that calling ahead uses."""

    @property
    def calls_ahead(self) -> int: ...

    def block(self, start: int, stop: int, context: Context) -> Block: ...

    def one_by_one(self, indices: range, context: Context, error: Exception) -> Iterator[Block]: ...


# Reading ahead


FIRST_ITEMS_AHEAD, MAX_ITEMS_AHEAD = 8, 16
"""Items whose work is started before their turn: at first, and at most; the number doubles with each item."""

_runs: set[object] = set()  # of `read_ahead`: they share the threads and the memory budget of this process

K = TypeVar("K")
T = TypeVar("T")
W = TypeVar("W", bound=Work)


@contextmanager
def read_ahead(
    items: Generator[T, None, None], make_work: Callable[[T, bool], W], is_remote: Callable[[T], bool]
) -> Generator[Iterator[tuple[T, W]], None, None]:
    """The items in order, each with its work, which is started early if it is remote.

    Args:
        items: taken no further ahead than work is started. Errors of items and of work are raised in their turn.
        make_work: makes the work of an item; the flag is True if a thread starts it before its turn.
        is_remote: tells that the work of an item takes long.
    """
    run = object()
    _runs.add(run)
    try:
        with closing(items), closing(_read_ahead(items, make_work, is_remote)) as reading:
            yield reading
    finally:
        _runs.discard(run)


def _read_ahead(
    items: Iterator[T], make_work: Callable[[T, bool], W], is_remote: Callable[[T], bool]
) -> Generator[tuple[T, W], None, None]:
    waiting: deque[tuple[T, W, bool]] = deque()  # the flag: it was started early
    remote = True  # the last item
    ended = False
    failure: Exception | None = None
    limit = FIRST_ITEMS_AHEAD
    try:
        while True:
            for _, work, early in waiting:
                if early:
                    work.start()
            while not ended and len(waiting) <= limit and (remote or not waiting):
                try:
                    item = next(items)
                except StopIteration:
                    ended = True
                    break
                except Exception as error:
                    ended, failure = True, error
                    break
                remote = is_remote(item)
                early = remote and bool(waiting)
                waiting.append((item, make_work(item, early), early))
                if early:
                    waiting[-1][1].start()
            if waiting:
                limit = max(1, min(2 * limit, MAX_ITEMS_AHEAD // len(_runs)))
                yield waiting.popleft()[:2]
            elif failure is None:
                return
            else:
                raise failure
    finally:
        failure = None  # its traceback refers to this frame, and so to it
        for _, work, _ in waiting:
            work.cancel()


class WorkGroup(dict[K, W]):
    """Several pieces of work as one."""

    def start(self) -> None:
        for work in self.values():
            work.start()

    def cancel(self) -> None:
        for work in self.values():
            work.cancel()


def rows_ahead(stage: _Readable, indices: range, context: Context) -> Generator[Block, None, tuple[int, bool]]:
    """Rows at `indices`, a block each, up to the first row that waits for nothing; the work of the next is started.

    Returns the position of that row, and True if later rows may have to wait.
    """
    context = replace(context, started={})
    items = (_row_work(stage, index, context) for index in indices)
    with read_ahead(items, lambda item, early: item.works, lambda item: bool(item.works)) as rows:
        for (index, works, some_local), _ in rows:
            if not works:
                return index, not some_local
            context.started.update(works)
            del works, _
            block = [stage.block(index, index + 1, context)]
            context.started.clear()
            yield block.pop()
    return indices.stop, False


class _RowWork(NamedTuple):
    """The work that a row waits for.

    Attributes:
        row: its position.
        some_local: some stages read the row from local storage.
    """

    row: int
    works: WorkGroup[StartedKey, Work]
    some_local: bool


def _row_work(stage: _Readable, index: int, context: Context) -> _RowWork:
    works: dict[StartedKey, Work | None] = {}
    with suppress(Exception):  # `rows` raises it in its turn
        _start_reading(stage, index, context, works)
    remote = WorkGroup({place: work for place, work in works.items() if work is not None})
    return _RowWork(index, remote, None in works.values())


def _start_reading(stage: _Readable, index: int, context: Context, works: dict[StartedKey, Work | None]) -> None:
    if type(stage.op).start_reading is not Operator.start_reading:
        works[context.started_key(stage, index)] = stage.op.start_reading(stage, index, context)
    elif stage.reads_ahead and not isinstance(stage.op, Source):
        for source, row, inner in stage.op.reads(stage, index, context):
            _start_reading(cast("_Readable", source), row, inner, works)


class _Readable(Input, StageView, Protocol):
    """The part of a stage that reading ahead uses."""

    @property
    def reads_ahead(self) -> bool: ...

    def block(self, start: int, stop: int, context: Context) -> Block: ...


# Prefetching


def in_thread(
    make: Callable[[Context], Iterator[Block]], rows: int, context: Context, operator: str
) -> Iterator[Block]:
    """The blocks of an operator, which `make` makes in a thread that pauses while `rows` rows are ready.

    The thread starts at the first `next` and ends when the iterator is closed or dropped. If `rows` is 0 or the run
    allows no threads, the calling thread makes the blocks.
    """
    return _in_thread(make, rows, context, operator) if rows and context.process.threads else make(context)


def _in_thread(
    make: Callable[[Context], Iterator[Block]], rows: int, context: Context, operator: str
) -> Iterator[Block]:
    # A clock of its own does not count the time in which the thread waits.
    clock = Clock(times_of_input(context.pacing.clock.thread, operator))
    queue = _Queue(rows, clock)
    inner = context.with_clock(clock)
    context.process.resources.start("feedpipe-prefetch", partial(queue.fill, make, inner), queue.close)
    try:
        while (block := queue.next()) is not None:
            yield block
    finally:
        queue.close()  # the run joins its thread


@dataclass(frozen=True)
class _Failed:
    error: BaseException


class _Queue:
    """Finished blocks. The thread waits while `limit` rows are ready, and the consumer while none is.

    It has two queues and no lock, so an interrupt leaves nothing half done.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._ready: SimpleQueue[Block | _Failed | None] = SimpleQueue()  # None: the end
        self._taken: SimpleQueue[int | None] = SimpleQueue()  # rows of each block that was taken; None: closed
        self._done = False
        _queues[ref(self, _queues.__delitem__)] = None

    def fill(self, make: Callable[[Context], Iterator[Block]], context: Context) -> None:
        end: _Failed | None = None
        try:
            rows = 0
            blocks = make(context)  # kept until it is closed below: an iterator that is dropped runs its `finally` late
            while (block := self._clock.next(blocks)) is not None:
                rows += len(block)
                self._ready.put(block)
                del block  # it is the consumer's now
                while (taken := self._take(wait=rows >= self._limit)) != 0:
                    if taken is None:
                        end = _Failed(RunEnded())
                        return
                    rows -= taken
        except BaseException as error:
            end = _Failed(error)
        finally:
            try:
                context.running.close()
            finally:
                self._clock.end()
                self._ready.put(end)

    def _take(self, wait: bool) -> int | None:
        """The rows of a block that was taken; 0 if none was and it need not wait; None if the consumer is gone."""
        try:
            return self._taken.get_nowait()
        except Empty:
            if not wait:
                return 0
        with self._clock.waiting("consumer"):
            return self._taken.get()

    def next(self) -> Block | None:
        if self._done:
            return None
        if self._ready.empty():
            with waiting("input", self._clock.name):
                item = self._ready.get()
        else:
            item = self._ready.get()
        if isinstance(item, Block):
            self._taken.put(len(item))
            return item
        self._done = True
        if item is not None:
            raise item.error
        return None

    def close(self) -> None:
        self._taken.put(None)

    def disown(self) -> None:
        """Ends the queue in a forked copy of its process, which does not have the thread that fills it."""
        message = "the thread of `prefetch` belongs to the process that started it; begin a new iterator in this one"
        self._ready = SimpleQueue()
        self._ready.put(_Failed(LoaderError(message)))


def _disown() -> None:
    for reference in list(_queues):
        if (queue := cast("ref[_Queue]", reference)()) is not None:
            queue.disown()


_queues: dict[object, None] = {}
os.register_at_fork(after_in_child=_disown)
