"""A thread that makes blocks ahead of their consumer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from .block import Block, close
from .context import Context
from .pace import Clock


class _Queue:
    """Blocks made ahead: the thread waits while `limit` rows are ready, the consumer while there are none."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._ready: deque[Block] = deque()
        self._rows = 0
        self._changed = threading.Condition()
        self._closed = False
        self._done = False
        self._error: BaseException | None = None

    def fill(self, blocks: Iterator[Block]) -> None:
        error: BaseException | None = None
        try:
            for block in blocks:
                with self._changed:
                    self._ready.append(block)
                    self._rows += len(block)
                    self._changed.notify_all()
                    self._clock.leave()
                    self._changed.wait_for(lambda: self._closed or self._rows < self._limit)
                    self._clock.enter()
                    if self._closed:
                        return
        except BaseException as caught:
            error = caught
        finally:
            close(blocks)
            with self._changed:
                self._done, self._error = True, error
                self._changed.notify_all()

    def next(self) -> Block | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._done)
            if self._ready:
                block = self._ready.popleft()
                self._rows -= len(block)
                self._changed.notify_all()
                return block
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


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
