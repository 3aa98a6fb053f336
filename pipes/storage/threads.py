"""Calls that mostly wait for storage, some at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from .tasks import THREADS, Task

T = TypeVar("T")
U = TypeVar("U")


def in_threads(function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """`map`, in order, with some calls under way where there are several; a failure comes in its turn."""
    running: deque[Task[U]] = deque()
    try:
        for item in items:
            task = Task(partial(function, item))
            if running:  # the first call is made here: perhaps it is the only one
                task.start()
            running.append(task)
            if len(running) > THREADS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for task in running:
            task.cancel()
