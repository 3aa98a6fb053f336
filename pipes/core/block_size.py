"""The size of blocks: the engine's business, never visible in results."""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from .rows import BlockRows, nbytes


class BlockSize(Protocol):
    """How many rows the next block of one producer may hold."""

    def rows(self) -> int: ...
    def produced(self, rows: BlockRows) -> None: ...


class Clock:
    """Seconds of producing: time in which the consumer holds control does not count."""

    __slots__ = ("_away", "_left")

    def __init__(self) -> None:
        self._away = 0.0
        self._left = 0.0

    def now(self) -> float:
        return perf_counter() - self._away

    def leave(self) -> None:
        self._left = perf_counter()

    def enter(self) -> None:
        self._away += perf_counter() - self._left


class AdaptiveBlockSize:
    """Starts at one row and doubles while a block takes little time to produce and few bytes; shrinks when it does not.

    So the first row comes at once, a slow function is never run over a long block, and a fast one sees long blocks.
    """

    ROWS = 8192
    BYTES = 2**20  # what is made should still be in the cache when it is used
    FAST, SLOW = 0.002, 0.008  # seconds of producing one block

    __slots__ = ("_clock", "_limit", "_since", "_size")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._size = 1
        self._limit = self.ROWS
        self._since: float | None = None

    def rows(self) -> int:
        now = self._clock.now()
        if self._since is not None:
            spent = now - self._since
            if spent < self.FAST:
                self._size = min(self._size * 2, self.ROWS)
            elif spent > self.SLOW:
                self._size = max(self._size // 2, 1)
        self._since = now
        return min(self._size, self._limit)

    def produced(self, rows: BlockRows) -> None:
        if rows:
            self._limit = max(1, self.BYTES * len(rows) // max(1, nbytes(rows)))


class OneRow:
    """One row a block: for a replay, and for a debugger."""

    __slots__ = ()

    def __init__(self, clock: Clock) -> None:
        pass

    def rows(self) -> int:
        return 1

    def produced(self, rows: BlockRows) -> None:
        pass
