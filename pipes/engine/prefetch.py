"""A thread that makes blocks before their consumer asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from ..core.block import Block, close
from ..core.block_size import Clock
from ..core.context import Context


@dataclass(frozen=True)
class _Failed:
    error: BaseException


class _Queue:
    """Blocks made ahead: the thread waits while `limit` rows are ready, the consumer while there are none.

    Two queues and no lock: the garbage collector may call `close` in any thread at any moment, in the midst of a wait
    as well, and `SimpleQueue.put` is what the standard library promises to survive that.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._ready: SimpleQueue[Block | _Failed | None] = SimpleQueue()  # None: the end
        self._taken: SimpleQueue[int | None] = SimpleQueue()  # rows of each block taken; None: closed
        self._done = False

    def fill(self, blocks: Iterator[Block]) -> None:
        last: _Failed | None = None
        try:
            rows = 0
            for block in blocks:
                rows += len(block)
                self._ready.put(block)
                del block  # the consumer's alone from here on
                while (taken := self._take(wait=rows >= self._limit)) != 0:
                    if taken is None:
                        return
                    rows -= taken
        except BaseException as caught:
            last = _Failed(caught)
        finally:
            close(blocks)
            self._ready.put(last)

    def _take(self, wait: bool) -> int | None:
        """Rows of one block taken, 0 when none was and it need not wait, None when the consumer is gone."""
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
        made = self._ready.get()
        if isinstance(made, Block):
            self._taken.put(len(made))
            return made
        self._done = True
        if made is not None:
            raise made.error
        return None

    def close(self) -> None:
        self._taken.put(None)


def ahead(make: Callable[[Context], Iterator[Block]], rows: int, context: Context) -> Iterator[Block]:
    """The blocks of `make`, made by a thread that works until `rows` rows are ready.

    The thread starts at the first `next` and ends when the iterator is closed or dropped. Where `rows` is 0 or the run
    allows no threads, the blocks are made in the calling thread.
    """
    return _ahead(make, rows, context) if rows and context.threads else make(context)


def _ahead(make: Callable[[Context], Iterator[Block]], rows: int, context: Context) -> Iterator[Block]:
    clock = Clock()  # the thread's own: time in which it waits is no time of producing
    queue = _Queue(rows, clock)
    blocks = make(replace(context, clock=clock))
    thread = threading.Thread(target=queue.fill, args=(blocks,), name="feedpipe-prefetch", daemon=True)
    context.shared.threads.append(thread)
    thread.start()
    try:
        while (block := queue.next()) is not None:
            yield block
    finally:
        # Not joined here: the garbage collector may run this in any thread, that one too. A session joins when closed.
        queue.close()
