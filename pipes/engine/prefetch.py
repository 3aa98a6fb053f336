"""`in_thread`: a thread that makes the blocks of an operator while the consumer uses those before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from ..core.block import Block
from ..core.context import Context
from ..core.ending import RunEnded
from ..core.times import Clock, times_of_input, waiting
from ..errors import LoaderError


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
        self._process = os.getpid()

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
        except RunEnded:
            end = _Failed(RunEnded())  # the frames of the other would keep this thread until a collection
        except BaseException as error:
            end = _Failed(error)
        finally:
            try:
                context.running.close()
            finally:
                self._clock.end()
                self._ready.put(end)
                del end  # as in `next`

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
        if os.getpid() != self._process:  # the thread is not here
            raise LoaderError(
                "the thread of `prefetch` belongs to the process that started it; begin a new iterator in this one"
            )
        if self._ready.empty():
            with waiting("input", self._clock.name):
                item = self._ready.get()
        else:
            item = self._ready.get()
        if isinstance(item, Block):
            self._taken.put(len(item))
            return item
        self._done = True
        if item is None:
            return None
        try:
            raise item.error
        finally:
            del item  # this frame is in the traceback of the error, and would keep all of it until a collection

    def close(self) -> None:
        self._taken.put(None)
