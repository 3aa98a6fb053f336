"""The memory through which one worker's elements travel.

The worker chooses where an element goes, since it knows the size; the consumer makes arrays right on that memory, and
says when the last of them is gone. The file is sparse: only what was written to takes memory.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from bisect import bisect
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

PAGE = mmap.PAGESIZE
NOTE = PAGE
"""Bytes at the beginning in which the worker notes what it is about to do."""


def rounded(size: int) -> int:
    """The bytes that `size` bytes take: whole pages, and few different sizes, so that freed regions fit again."""
    step = max(PAGE, 1 << max(0, size.bit_length() - 5))
    return -(-size // step) * step


class Arena:
    """The worker's side: finds room for elements, the lowest first, so that the same pages are used again.

    Args:
        fd: the shared memory.
        size: its bytes.
        held: regions that the consumer still has from a worker before this one: offset and bytes.
    """

    def __init__(self, fd: int, size: int, held: Iterable[tuple[int, int]]) -> None:
        self._map = mmap.mmap(fd, size)
        self._memory = memoryview(self._map)
        self._taken = {offset: rounded(count) for offset, count in sorted(held)}
        ends = [NOTE, *(offset + taken for offset, taken in self._taken.items())]
        # From where to where nothing is taken. What is kept for long lies side by side, so there are few of them.
        self._holes = list(zip(ends, [*self._taken, size], strict=True))

    @property
    def room(self) -> int:
        """The bytes of the largest element that could ever fit."""
        return len(self._map) - NOTE

    def reserve(self, sizes: Iterable[int]) -> list[int] | None:
        """The offsets of regions of these sizes, or None where there is no room now for all of them."""
        offsets: list[int] = []
        for size in sizes:
            offset = self._reserve(rounded(size))
            if offset is None:
                for reserved in offsets:
                    self.free(reserved)
                return None
            offsets.append(offset)
        return offsets

    def _reserve(self, size: int) -> int | None:
        for at, (start, stop) in enumerate(self._holes):
            if stop - start >= size:
                self._holes[at : at + 1] = [(start + size, stop)] if stop - start > size else []
                self._taken[start] = size
                return start
        return None

    def free(self, offset: int) -> None:
        start, stop = offset, offset + self._taken.pop(offset)
        at = bisect(self._holes, (start, stop))
        left = [hole for hole in self._holes[at - 1 : at] if hole[1] == start]
        right = [hole for hole in self._holes[at : at + 1] if hole[0] == stop]
        joined = [*left, (start, stop), *right]
        self._holes[at - len(left) : at + len(right)] = [(joined[0][0], joined[-1][1])]

    def region(self, offset: int, size: int) -> memoryview:
        return self._memory[offset : offset + size]

    def note(self, text: bytes) -> None:
        """Leaves a note that survives this process."""
        text = text[: NOTE - 2]
        self._memory[2 : 2 + len(text)] = text
        self._memory[:2] = len(text).to_bytes(2, "little")


class _Lease(weakref.ref[Any]):
    """Watches a region that was handed over."""

    __slots__ = ("offset", "size")
    offset: int
    size: int


class Window:
    """The consumer's side: hands over regions, and learns when nobody uses them any more."""

    def __init__(self, fd: int, size: int) -> None:
        self._map = mmap.mmap(fd, size)
        self._leases: dict[int, _Lease] = {}
        self._dead: deque[_Lease] = deque()  # appended to by the garbage collector, at any moment, in any thread

    def lease(self, offset: int, size: int) -> ctypes.Array[ctypes.c_char]:
        """The region; it is free again when the object returned, and with it each view of it, is gone."""
        owner = _exporter(rounded(size)).from_buffer(self._map, offset)
        lease = _Lease(owner, self._dead.append)
        lease.offset, lease.size = offset, size
        self._leases[offset] = lease
        return owner

    def freed(self) -> list[int]:
        """Offsets of the regions that have become free since the last call."""
        found: list[int] = []
        while self._dead:
            offset = self._dead.popleft().offset
            del self._leases[offset]
            found.append(offset)
        return found

    def held(self) -> list[tuple[int, int]]:
        """Offset and size of the regions in use."""
        return [(lease.offset, lease.size) for lease in self._leases.values()]

    def note(self) -> bytes:
        """The worker's last note."""
        return self._map[2 : 2 + int.from_bytes(self._map[:2], "little")]


@lru_cache(256)
def _exporter(size: int) -> type[ctypes.Array[ctypes.c_char]]:
    # A new object for each hand-over: a finalizer on a memoryview of the map would run while arrays still use it.
    return ctypes.c_char * size
