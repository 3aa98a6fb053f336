"""Work ahead of its consumer: a thread that makes blocks, and work that is begun before its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Protocol, TypeVar

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
