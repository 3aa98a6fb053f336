"""`SpinWait`: how to wait for another process that may answer at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

MAX_SPIN_SECONDS = 0.0002
"""Checking again and again pays for so long: to be woken by the system costs a third of that."""


def enough_cores(processes: int) -> bool:
    """Whether so many processes of each rank of this machine have a core each; else one that spins delays another."""
    ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processes * ranks <= cores


class SpinWait:
    """Waits for answers. While they come fast, it checks again and again before it sleeps.

    Attributes:
        allowed: whether it may check again and again; else it sleeps at once.
    """

    def __init__(self) -> None:
        self.allowed = True
        self._fast = False

    def wait(self, check: Callable[[], T | None], sleep: Callable[[], T]) -> T:
        """What `check` returns once that is not None, or what `sleep` returns, which waits for the answer."""
        begin = perf_counter()
        while self._fast and self.allowed and perf_counter() - begin < MAX_SPIN_SECONDS:
            if (answer := check()) is not None:
                return answer
            os.sched_yield()
        answer = sleep()
        self._fast = perf_counter() - begin < MAX_SPIN_SECONDS * (2 if self._fast else 1)
        return answer
