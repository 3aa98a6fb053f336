"""The size of blocks: the engine chooses it, and results never show it."""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from .rows import BlockRows, nbytes


class BlockSize(Protocol):
    """How many rows the next block of one producer may hold."""

    def rows(self) -> int:
        """How many rows the next block may hold."""
        ...

    def produced(self, rows: BlockRows) -> None:
        """Tells what the producer has made."""
        ...


class Clock:
    """Counts the seconds of producing, without those in which the consumer runs."""

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
    """Starts at one row, doubles while a block takes little time and few bytes, and shrinks when it takes more.

    So the first row comes at once, a slow function never runs over a long block, and a fast one gets long blocks.
    """

    MAX_ROWS = 8192
    MAX_BYTES = 2**20  # a block should still be in the cache when it is used
    FAST_SECONDS, SLOW_SECONDS = 0.002, 0.008  # of producing one block

    __slots__ = ("_clock", "_limit", "_since", "_size")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._size = 1
        self._limit = self.MAX_ROWS
        self._since: float | None = None

    def rows(self) -> int:
        now = self._clock.now()
        if self._since is not None:
            spent = now - self._since
            if spent < self.FAST_SECONDS:
                self._size = min(self._size * 2, self.MAX_ROWS)
            elif spent > self.SLOW_SECONDS:
                self._size = max(self._size // 2, 1)
        self._since = now
        return min(self._size, self._limit)

    def produced(self, rows: BlockRows) -> None:
        if rows:
            self._limit = max(1, self.MAX_BYTES * len(rows) // max(1, nbytes(rows)))


class OneRow:
    """One row in each block: for replays and for debugging."""

    __slots__ = ()

    def __init__(self, clock: Clock) -> None:
        pass

    def rows(self) -> int:
        return 1

    def produced(self, rows: BlockRows) -> None:
        pass
