"""`PerProcess`: a value that an operator makes once in each process and never sends to another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Holds what an operator keeps open or in memory.

    A copy or pickle of it is empty, so another process makes its own value.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: list[T] = []  # none or one; any value may be held, None too

    def get(self, make: Callable[[], T]) -> T:
        """The value. The first caller makes it while others wait; if `make` raises, the next caller tries again."""
        if not self._values:
            with self._lock:
                if not self._values:
                    self._values.append(make())
        return self._values[0]

    def __reduce__(self) -> tuple[object, ...]:
        return PerProcess, ()
