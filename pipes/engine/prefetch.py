"""A thread that makes blocks before their consumer asks for them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from ..core.block import Block, close
from ..core.block_size import Clock
from ..core.context import Context
from ..errors import LoaderError


@dataclass(frozen=True)
class _Failed:
    error: BaseException


class _Queue:
    """Finished blocks. The thread waits while `limit` rows are ready, the consumer while there are none.

    It has two queues and no lock: the garbage collector may call `close` in any thread at any moment, even during a
    wait, and the standard library guarantees that `SimpleQueue.put` is safe there.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._ready: SimpleQueue[Block | _Failed | None] = SimpleQueue()  # None: the end
        self._taken: SimpleQueue[int | None] = SimpleQueue()  # rows of each block that was taken; None: closed
        self._done = False
        _queues.add(self)

    def fill(self, blocks: Iterator[Block]) -> None:
        end: _Failed | None = None
        try:
            rows = 0
            for block in blocks:
                rows += len(block)
                self._ready.put(block)
                del block  # it is the consumer's now
                while (taken := self._take(wait=rows >= self._limit)) != 0:
                    if taken is None:
                        return
                    rows -= taken
        except BaseException as error:
            end = _Failed(error)
        finally:
            close(blocks)
            self._ready.put(end)

    def _take(self, wait: bool) -> int | None:
        """The rows of one block that was taken; 0 if none was and it need not wait; None if the consumer is gone."""
        try:
            return self._taken.get_nowait()
        except Empty:
            if not wait:
                return 0
        self._clock.leave()
        try:
            return self._taken.get()
        finally:
            self._clock.enter()

    def next(self) -> Block | None:
        if self._done:
            return None
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
    for queue in _queues:
        queue.disown()


_queues: weakref.WeakSet[_Queue] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown)


def in_thread(make: Callable[[Context], Iterator[Block]], rows: int, context: Context) -> Iterator[Block]:
    """The blocks of `make`, made by a thread that pauses while `rows` rows are ready.

    The thread starts at the first `next` and ends when the iterator is closed or dropped. If `rows` is 0 or the run
    allows no threads, the calling thread makes the blocks.
    """
    return _in_thread(make, rows, context) if rows and context.process.threads else make(context)


def _in_thread(make: Callable[[Context], Iterator[Block]], rows: int, context: Context) -> Iterator[Block]:
    clock = Clock()  # the thread's own: it does not count the time in which the thread waits
    queue = _Queue(rows, clock)
    blocks = make(context.with_clock(clock))
    thread = threading.Thread(target=queue.fill, args=(blocks,), name="feedpipe-prefetch", daemon=True)
    context.process.resources.threads.append(thread)
    thread.start()
    try:
        while (block := queue.next()) is not None:
            yield block
    finally:
        # Not joined here: the garbage collector may run this in any thread, in that one too. A session joins when it
        # is closed.
        queue.close()
