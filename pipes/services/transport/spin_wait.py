"""How to wait for another process that may answer at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

SOON = 0.0002
"""Seconds. To be woken by the system costs a third of that; who waits for less asks again and again."""


class Waiting:
    """Waits: as long as the last answer came soon, for the first moments by asking again and again."""

    def __init__(self) -> None:
        self._soon = False

    def until(self, ask: Callable[[], T | None], sleep: Callable[[], T]) -> T:
        """What `ask` gives once that is not None, or what `sleep` gives, which waits for it."""
        begin = perf_counter()
        while self._soon and perf_counter() - begin < SOON:
            if (answer := ask()) is not None:
                return answer
            os.sched_yield()
        slept = sleep()
        self._soon = perf_counter() - begin < SOON * (2 if self._soon else 1)
        return slept
