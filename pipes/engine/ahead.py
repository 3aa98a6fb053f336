"""Work before its turn: `in_order` for the items of a stream, `rows_ahead` for rows by position."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np

from ..core.block import Block, BlockSize, close, nbytes
from ..core.context import Context, StartedKey, Work
from ..core.operator import Ahead, Input, Source, StageView, Trait
from ..core.rows import BlockRows
from ..errors import raise_interrupt

ITEMS_AHEAD = 16
"""Files, parts of files or rows that a process requests ahead of their consumer."""
REQUESTS = Ahead(ITEMS_AHEAD)
CALLS_AHEAD = 4
"""The calls begun or finished ahead of their consumer, for each call that may run at a time."""
MAX_BYTES_AHEAD = 2**28
"""The most bytes of results ahead."""
MAX_ROWS_TRACED = 8192
"""About the most rows that are traced ahead to find those with work."""

T = TypeVar("T")
W = TypeVar("W", bound=Work)


class Limit:
    """The most pieces of work that one of several windows holds.

    Args:
        most: for all of them together.
        sharing: these windows, or the shards of this process.
    """

    def __init__(self, most: int, sharing: Collection[object] = ()) -> None:
        self._most = self._fitting = most
        self._sharing = sharing

    @property
    def now(self) -> int:
        """The limit, at least 1."""
        return max(1, min(self._most, self._fitting) // max(1, len(self._sharing)))

    def measure(self, rows: BlockRows, count: int) -> None:
        """Adapt the limit to the bytes of `rows`, which needed `count` pieces of work."""
        if count:
            self._fitting = MAX_BYTES_AHEAD * count // max(1, nbytes(rows))


def in_order(
    items: Iterator[T], begin: Callable[[T, bool], W], limit: Limit, waits: Callable[[T], bool] = lambda item: True
) -> Generator[tuple[T, W]]:
    """The items in order, each with its work, which is begun before its turn.

    Args:
        items: taken no further ahead than work is begun. They are closed, and an error of them is raised in its turn.
        begin: makes the work of an item; the flag is True if it is started before its turn.
        limit: of the pieces of work ahead of the consumer's item.
        waits: tells whether the work of an item takes long. What does not is left to its consumer.
    """
    waiting: deque[tuple[T, W]] = deque()
    unstarted: deque[W] = deque()  # some of their work waits for memory
    failure: Exception | None = None
    try:
        while True:
            while unstarted and unstarted[0].start():
                unstarted.popleft()
            is_ready = False  # the next item may take long to come, so a result that is there is used first
            while failure is None and not is_ready and len(waiting) <= limit.now:
                try:
                    item = next(items)
                except Exception as error:
                    raise_interrupt(error)
                    failure = error
                    break
                takes_long = waits(item)
                early = takes_long and bool(waiting)
                waiting.append((item, begin(item, early)))
                if early and not waiting[-1][1].start():
                    unstarted.append(waiting[-1][1])
                is_ready = not takes_long or waiting[0][1].is_done()
                del item
            if not waiting:
                break
            if unstarted and unstarted[0] is waiting[0][1]:
                unstarted.popleft()
            yield waiting.popleft()
        if not isinstance(failure, StopIteration):
            raise cast("Exception", failure)
    finally:
        failure = None  # its traceback refers to this frame, and so to it
        for _, work in waiting:
            work.cancel()
        close(items)


_reading: set[object] = set()  # the windows of `read_ahead`: they share the threads and the memory of this process


@contextmanager
def read_ahead(
    items: Iterator[T], begin: Callable[[T, bool], W], waits: Callable[[T], bool]
) -> Generator[Iterator[tuple[T, W]]]:
    """`in_order` for items to read, which share one limit in this process."""
    window = object()
    _reading.add(window)
    try:
        with closing(in_order(items, begin, Limit(ITEMS_AHEAD, _reading), waits)) as reading:
            yield reading
    finally:
        _reading.discard(window)


# Rows by position


def rows_ahead(stage: _Stage, indices: range, context: Context, block_size: BlockSize) -> Generator[Block, None, int]:
    """The rows at `indices` of an indexed stage; the work of the next rows is begun.

    Work is begun for several rows together, so that their inputs are read together. At least one row is prepared ahead,
    even if it alone needs more work than the limit. A block waits only for the work of its first row; its further rows
    have none, or calls that have returned. These are a quarter of the limit at most, so that other calls run while the
    consumer has the block.

    Returns the position of the row from which on no row waits.
    """
    window = _Rows(stage, indices, context)
    start = indices.start
    try:
        while start < indices.stop and window.begin():
            # No other shard gets a unit of work that this one has taken, so it comes alone.
            stop, count = window.take(start + (1 if stage.op.trait is Trait.DEALS_UNITS else block_size.rows()))

            def note(rows: BlockRows, count: int = count) -> None:
                block_size.produced(rows)
                window.limit.measure(rows, count)

            yield from stage.made(start, stop, context, note)
            start = stop
    finally:
        window.cancel()
    return start


class _Rows:
    """The rows at `indices`, from which blocks are taken, and the work of the next of them."""

    def __init__(self, stage: _Stage, indices: range, context: Context) -> None:
        ahead = {leaf: cast("Ahead", leaf.op.ahead()) for leaf in stage.begins}
        self.limit = Limit(max(each.most for each in ahead.values()), context.process.shards)
        self._requests = {leaf for leaf, each in ahead.items() if not each.together}
        self._stage = stage
        self._indices = indices
        self._context = context
        self._begins = set(stage.begins)  # those whose rows wait
        self._first = self._traced = indices.start  # the next row to take, and the next to trace
        self._failed = indices.start  # work of rows before this one could not be begun
        self._rows: deque[_Row] = deque()  # those of the rows between them that have work
        self._size = 0  # the pieces of it, of the stage with most in each row
        self._unstarted: dict[int, Work] = {}  # requests

    def begin(self) -> bool:
        """Begins the work that may be begun now, if it is more than a little; returns False if no row waits."""
        first, most = self._first, self.limit.now
        # The consumer may use the first row only, so requests for others start with the second block.
        for number, work in list(self._unstarted.items()) if first > self._indices.start else ():
            if work.start():
                del self._unstarted[number]
        least = most - 1 if self._requests else most * 3 // 4
        if first < self._failed or (self._size > least and self._traced - first > 1):
            return True
        # Tracing takes time, so it reaches further ahead only when rows have been taken: the first block comes at once.
        end = first + most + min(first - self._indices.start, MAX_ROWS_TRACED)
        size = self._size
        traced: list[tuple[int, list[_Leaf]]] = []
        while self._traced < self._indices.stop:
            if self._traced - first > 1 and (size >= most or self._traced >= end):
                break
            if leaves := list(_leaves(self._stage, self._traced, self._context, self._begins)):
                traced.append((self._traced, leaves))
                size += _most_of_a_stage(leaves)
            self._traced += 1
        self._add(traced)
        return bool(self._begins or self._rows)

    def take(self, stop: int) -> tuple[int, int]:
        """Hands over the work of the next rows, up to `stop` at most; returns their end, and the pieces of work."""
        first = self._first
        stop = min(stop, self._traced)
        count, most = 0, self.limit.now // 4
        while self._rows and self._rows[0].number < stop:
            number, size, works, are_begun, is_alone = self._rows[0]
            if number > first:
                are_done = are_begun and all(work.is_done() for work in works.values())
                if is_alone or not are_done or count + size > most:
                    stop = number
                    break
            elif is_alone or not are_begun:
                stop = number + 1
            self._rows.popleft()
            for work in works.values() if is_alone else ():
                self._unstarted.pop(id(work), None)
            self._context.started.update(works)
            count += size
        self._size -= count
        self._first = stop
        return stop, count

    def cancel(self) -> None:
        for row in self._rows:
            for work in row.works.values():
                work.cancel()

    def _add(self, traced: list[tuple[int, list[_Leaf]]]) -> None:
        """Begins the work of rows, that of one stage together."""
        groups: dict[tuple[object, ...], dict[int, _Leaf]] = {}
        for leaf in (leaf for _, leaves in traced for leaf in leaves):
            context = leaf.context
            group = leaf.stage, context.seed, context.epoch, context.rounds, context.shard
            groups.setdefault(group, {})[leaf.row] = leaf
        begun: dict[StartedKey, Work | None] = {}
        for together in groups.values():
            first = next(iter(together.values()))
            with suppress(Exception):  # `rows` raises it in its turn
                answers = first.stage.op.begin(first.stage, np.array(list(together)), first.context)
                begun.update(zip((leaf.key for leaf in together.values()), answers, strict=False))
        if len(begun) < sum(map(len, groups.values())):
            self._failed = self._traced
        starts = self._first > self._indices.start
        for number, leaves in traced:
            works: dict[StartedKey, Work] = {}
            missing = 0
            for leaf in leaves:
                work = begun.pop(leaf.key, leaf)
                if work is None:
                    self._begins.discard(leaf.stage)
                elif isinstance(work, _Leaf):  # it could not be begun, or an earlier row has it
                    missing += 1
                else:
                    works[leaf.key] = work
            if not works and not missing:
                continue
            is_alone = bool(self._requests) and any(leaf.stage in self._requests for leaf in leaves)
            self._rows.append(_Row(number, _most_of_a_stage(leaves), works, not missing, is_alone))
            self._size += self._rows[-1].size
            if is_alone:
                self._unstarted.update((id(work), work) for work in works.values() if not (starts and work.start()))


def _leaves(stage: _Stage, row: int, context: Context, begins: set[_Stage]) -> Iterator[_Leaf]:
    """The rows with work that a row is made of; none if it cannot be traced, for then `rows` raises the error."""
    if stage in stage.begins:
        if stage in begins:
            yield _Leaf(stage, row, context, context.started_key(stage.name, row))
    elif stage.begins and not isinstance(stage.op, Source):
        with suppress(Exception):
            for source, index, inner in stage.op.reads(stage, row, context):
                yield from _leaves(cast("_Stage", source), index, inner, begins)


class _Leaf(NamedTuple):
    """A row of a stage whose operator begins its work."""

    stage: _Stage
    row: int
    context: Context
    key: StartedKey


class _Row(NamedTuple):
    """A row that waits.

    Attributes:
        number: its position.
        size: the pieces of its work, of the stage with most.
        works: those that are begun.
        are_begun: whether these are all.
        is_alone: whether it is a block by itself, because what was requested serves once.
    """

    number: int
    size: int
    works: dict[StartedKey, Work]
    are_begun: bool
    is_alone: bool


def _most_of_a_stage(leaves: list[_Leaf]) -> int:
    return 1 if len(leaves) == 1 else max(Counter(leaf.stage for leaf in leaves).values())


class _Stage(Input, StageView, Protocol):
    """The part of a stage that this module uses."""

    @property
    def begins(self) -> frozenset[_Stage]: ...

    def made(self, start: int, stop: int, context: Context, note: Callable[[BlockRows], object]) -> Iterator[Block]: ...
