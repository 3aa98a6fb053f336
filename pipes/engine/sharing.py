"""One run of an input that several readers share: the branches of a fork, or the shards of a process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from threading import RLock
from typing import NamedTuple, TypeAlias

from ..core.block import Block, nbytes
from ..core.context import Context, RowShare
from ..core.cursor import Cursor
from ..core.operator import Input
from ..core.times import Clock


class AllRows(NamedTuple):
    """The share of a reader that takes all rows, such as branch `reader` of a fork."""

    reader: int
    slots: int = 1

    def count(self, rows: int) -> int:
        return rows


Share: TypeAlias = "AllRows | RowShare"


class LagError(Exception):
    """More bytes of rows wait for a reader than the limit allows."""

    def __init__(self, share: Share, rows: int, size: int) -> None:
        self.reader, self.rows, self.bytes = share[0], rows, size


class SharedRuns:
    """The runs of one input that several readers share; each reader takes its share of the rows.

    One run is enough, unless a reader resumes from a row that the run of the others has passed.

    Args:
        source: the input.
        limit: the number of bytes of rows that may wait for one reader; None: any.
    """

    def __init__(self, source: Input, limit: int | None = None) -> None:
        self._source = source
        self._limit = limit
        self._lock = RLock()  # the garbage collector may close a reader while its thread holds the lock
        self._runs: list[_Run] = []

    def read(self, share: Share, at: Cursor, others: Iterable[Share], context: Context) -> Iterator[Block]:
        """Give the rows of a share, from the cursor `at` of the input on.

        `others` are the shares that other readers read at about the same time.
        """
        with self._lock:
            run = self._claim(share, at, others, context)
        first = share.count(at.position)
        try:
            while (block := run.next(share)) is not None:
                skipped = first - block.at.position
                if skipped < len(block):
                    yield block.slice(max(0, skipped), len(block))
        finally:
            with self._lock:
                self._leave(run, share)

    def close(self) -> None:
        """End all runs. If a thread is still reading, its run is freed with this object."""
        if self._lock.acquire(blocking=False):
            try:
                for run in self._runs:
                    run.close()
            finally:
                self._lock.release()

    def _claim(self, share: Share, at: Cursor, others: Iterable[Share], context: Context) -> _Run:
        """A run that has all rows of a share from `at` on; no other reader gets it for this share."""
        round_key = round_key_of(context)
        for run in list(self._runs):  # rows of another round that wait for a reader wait in vain
            if not run.begun and run.round_key != round_key:
                self._end(run)
        runs = [run for run in self._runs if run.round_key == round_key]
        chosen = next((run for run in runs if run.serves(share, at.position)), None)
        for run in runs:
            if run is not chosen and share not in run.begun:  # else it is read twice, as in `pipe.zip(pipe)`
                self._leave(run, share)
        if chosen is None:
            sharing = {share, *others}.difference(*(run.begun for run in runs)) | {share}
            # It begins with the first row of the same turn, so that all shares have it.
            begin = Cursor(at.token, max(0, at.skip - at.position % share.slots), at.row)
            chosen = _Run(self._source, begin, context, sharing, self._limit, self._lock)
            self._runs.append(chosen)
        chosen.begun.add(share)
        return chosen

    def _leave(self, run: _Run, share: Share) -> None:
        run.leave(share)
        if not run.queues and run in self._runs:
            self._end(run)

    def _end(self, run: _Run) -> None:
        self._runs.remove(run)
        run.close()


class _Run:
    """One run. Each share has a queue of the blocks that its reader has not asked for yet."""

    def __init__(
        self, source: Input, at: Cursor, context: Context, sharing: Iterable[Share], limit: int | None, lock: RLock
    ) -> None:
        self._clock = Clock(thread=context.pacing.clock.thread)
        self._context = context.with_clock(self._clock)
        self._blocks = source.blocks(at, self._context)
        self._first = at.position
        self._limit = limit
        self._lock = lock
        self._error: BaseException | None = None
        self.round_key = round_key_of(context)
        self.queues: dict[Share, deque[tuple[Block, int]]] = {share: deque() for share in sharing}
        self._bytes = dict.fromkeys(self.queues, 0)
        self.begun: set[Share] = set()

    def serves(self, share: Share, position: int) -> bool:
        """Whether the run has all rows from a position on for a share that nobody reads from it yet."""
        return share in self.queues and share not in self.begun and self._first <= position

    def leave(self, share: Share) -> None:
        self.begun.discard(share)
        self.queues.pop(share, None)

    def close(self) -> None:
        self._context.running.close()

    def next(self, share: Share) -> Block | None:
        with self._lock:
            queue = self.queues[share]
            while not queue:
                if self._error is not None:  # else a failed run would look like the end to the other readers
                    raise self._error
                try:
                    block = self._clock.next(self._blocks)
                    if block is None:
                        return None
                    self._keep(block, share)
                except BaseException as error:
                    self._error = error
                    raise
            block, size = queue.popleft()
            self._bytes[share] -= size
            return block

    def _keep(self, block: Block, reading: Share) -> None:
        """Put the rows into the queues. A reader that lags too far and has not begun gets its own run if it begins."""
        size = 0 if self._limit is None else nbytes(block.rows)
        for share, queue in list(self.queues.items()):
            part = _part(block, share)
            if len(part):
                queue.append((part, size))
                self._bytes[share] += size
            if self._limit is None or share == reading or self._bytes[share] <= self._limit:
                continue
            if share in self.begun:
                raise LagError(share, sum(len(block) for block, _ in queue), self._bytes[share])
            self.leave(share)


def _part(block: Block, share: Share) -> Block:
    """The rows of a block that belong to a share."""
    if isinstance(share, AllRows):
        return block
    first = share.count(block.at.position)
    places = share.places(block.at.position, len(block))
    rows, origins = block.select(places)
    end = Cursor(block.end.plain, 0, first + len(places))
    return Block(rows, Cursor(block.at.plain, 0, first), end, origins)


def round_key_of(context: Context) -> tuple[object, ...]:
    """The key of the rows of an input: with equal keys they are the same for each reader."""
    return context.seed, context.epoch, context.rounds
