"""Work ahead of its consumer: a thread that makes blocks, and work that is begun before its turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from .block import Block, close
from .context import Context
from .pace import Clock

FIRST, MOST = 8, 16
"""Pieces of work that are begun before their turn: at first, then twice as many each time, up to the most."""

_runs: set[object] = set()  # of `begun_ahead`, that are going on: they share this process's threads and budget of bytes


class Work(Protocol):
    """What can be begun before its turn."""

    def start(self) -> None:
        """Lets a thread begin with it, or with what there was no room for when it began. Called again and again."""
        ...

    def cancel(self) -> None:
        """Nobody needs it."""
        ...


K = TypeVar("K")
T = TypeVar("T")
W = TypeVar("W", bound=Work)


class Together(dict[K, W]):
    """Several pieces of work as one."""

    def start(self) -> None:
        for work in self.values():
            work.start()

    def cancel(self) -> None:
        for work in self.values():
            work.cancel()


@contextmanager
def begun_ahead(
    items: Generator[T, None, None], begin: Callable[[T, bool], W], is_far: Callable[[T], bool]
) -> Generator[Iterator[tuple[T, W]], None, None]:
    """The items in order, and what is to be done with each: begun ahead where it takes long.

    Args:
        items: no more of them are taken ahead than are worked on. Their error comes in its turn, as does that of work.
        begin: makes the work of an item; it is told whether a thread will begin with it before its turn.
        is_far: whether the work for an item takes long.
    """
    run = object()
    _runs.add(run)
    try:
        with closing(items), closing(_begun(items, begin, is_far)) as begun:
            yield begun
    finally:
        _runs.discard(run)


def _begun(
    items: Iterator[T], begin: Callable[[T, bool], W], is_far: Callable[[T], bool]
) -> Generator[tuple[T, W], None, None]:
    waiting: deque[tuple[T, W, bool]] = deque()  # and whether it was begun ahead
    far = True  # the last of them
    failed: BaseException | None = None
    most = FIRST
    try:
        while True:
            for _, work, ahead in waiting:
                if ahead:
                    work.start()
            while failed is None and len(waiting) <= most and (far or not waiting):
                try:
                    item = next(items)
                except BaseException as error:
                    failed = error
                    break
                far = is_far(item)
                ahead = far and bool(waiting)
                waiting.append((item, begin(item, ahead), ahead))
                if ahead:
                    waiting[-1][1].start()
            if waiting:
                most = max(1, min(2 * most, MOST // len(_runs)))
                yield waiting.popleft()[:2]
            elif failed is None or isinstance(failed, StopIteration):
                return
            else:
                raise failed
    finally:
        for _, work, _ in waiting:
            work.cancel()


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
