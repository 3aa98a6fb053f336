"""The size of blocks: the engine chooses it, and results never show it."""

from __future__ import annotations

import math
from time import perf_counter
from typing import Protocol

from .row_bytes import nbytes
from .rows import BlockRows, Rows, column_names


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
    """Starts at one row, grows while a block takes little time and few bytes, and halves when its rows take long.

    So the first row comes at once, a slow function never runs over a long block, and a fast one gets long blocks. A
    block has costs of its own beside those of its rows: each column is handled once, a remote dataset answers a
    request. While they prevail, fewer rows would take as long, so the block doubles instead.
    """

    MAX_ROWS = 8192
    MAX_BYTES = 2**20  # a block should still be in the cache when it is used
    COLUMN_BYTES = 2**12  # more for each column: to handle a column takes as long as to copy this much
    FAST_SECONDS, SLOW_SECONDS = 0.002, 0.008  # of producing one block
    LEAP = 8  # times as many rows after a block so fast that these still take half of `FAST_SECONDS`; else twice
    COLUMN_SECONDS = 2.5e-5  # more for each column: what all operators of a chain take for it, whatever its rows

    __slots__ = ("_before", "_clock", "_columns", "_limit", "_since", "_size")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._size = 1
        self._limit = self.MAX_ROWS
        self._columns = 0
        self._before = 0, math.inf  # rows and seconds of the last block of another size
        self._since: float | None = None

    def rows(self) -> int:
        now = self._clock.now()
        if self._since is not None:
            self._adapt(now - self._since)
        self._since = now
        return min(self._size, self._limit)

    def _adapt(self, seconds: float) -> None:
        """Chooses the next size, after a block that took so many seconds."""
        size = min(self._size, self._limit)
        rows_before, seconds_before = self._before
        seconds_of_rows = seconds
        if size != rows_before:  # what one more row took, times the rows
            seconds_of_rows = size * (seconds - seconds_before) / (size - rows_before)
        self._size = size
        more = self.COLUMN_SECONDS * self._columns
        if seconds < self.FAST_SECONDS + more or seconds_of_rows < seconds / 2:
            growth = self.LEAP if seconds < self.FAST_SECONDS / (2 * self.LEAP) else 2
            self._size = min(size * growth, self.MAX_ROWS, self._limit)
        elif seconds > self.SLOW_SECONDS + 4 * more:
            self._size = max(size // 2, 1)
        if self._size != size:
            self._before = size, seconds

    def produced(self, rows: BlockRows) -> None:
        if rows:
            self._columns = len(column_names(rows)) if isinstance(rows, Rows) else 0
            most = self.MAX_BYTES + self.COLUMN_BYTES * self._columns
            self._limit = max(1, most * len(rows) // max(1, nbytes(rows)))


class OneRow:
    """One row in each block: for replays and for debugging."""

    __slots__ = ()

    def __init__(self, clock: Clock) -> None:
        pass

    def rows(self) -> int:
        return 1

    def produced(self, rows: BlockRows) -> None:
        pass
