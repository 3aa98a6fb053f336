"""Work that is begun while what comes before it is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from .fetch import Task

T = TypeVar("T")
U = TypeVar("U")

FIRST, MOST = 8, 16
"""Files, or parts of them, that are begun before their turn: at first, then twice as many each time, up to the most."""

_runs: set[object] = set()  # those that are going on in this process share its threads, and its budget of bytes


def begun_ahead(
    items: Generator[T, None, None], begin: Callable[[T, bool], Task[U]], is_far: Callable[[T], bool]
) -> Iterator[tuple[T, Task[U]]]:
    """The items in order, and what is to be done with each: begun ahead where it takes long.

    Args:
        items: no more of them are taken ahead than are worked on. Their error comes in its turn, as does a task's.
        begin: makes the task of an item; it is told whether a thread will begin with it before its turn.
        is_far: whether the work for an item takes long.
    """
    waiting: deque[tuple[T, Task[U]]] = deque()
    failed: BaseException | None = None
    most = FIRST
    run = object()
    _runs.add(run)
    try:
        while True:
            while failed is None and len(waiting) <= most and (not waiting or is_far(waiting[-1][0])):
                try:
                    item = next(items)
                except BaseException as error:
                    failed = error
                    break
                ahead = bool(waiting) and is_far(item)
                waiting.append((item, begin(item, ahead)))
                if ahead:
                    waiting[-1][1].start()
            if waiting:
                most = max(1, min(2 * most, MOST // len(_runs)))
                yield waiting.popleft()
            elif failed is None or isinstance(failed, StopIteration):
                return
            else:
                raise failed
    finally:
        _runs.discard(run)
        for _, task in waiting:
            task.cancel()
        items.close()
