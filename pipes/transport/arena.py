"""The memory through which one worker's elements travel.

The worker chooses where an element goes, since it knows the size; the consumer makes arrays right on that memory, and
says when the last of them is gone. The file is sparse: only what was written to takes memory.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from bisect import bisect, insort
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
        self._size = size
        self._taken = sorted((offset, rounded(count)) for offset, count in held)

    @property
    def room(self) -> int:
        """The bytes of the largest element that could ever fit."""
        return self._size - NOTE

    def reserve(self, size: int) -> int | None:
        """The offset of a region of `size` bytes, or None where there is no room now."""
        size = rounded(size)
        start = NOTE
        for offset, taken in self._taken:
            if offset - start >= size:
                break
            start = offset + taken
        if start + size > self._size:
            return None
        insort(self._taken, (start, size))
        return start

    def free(self, offset: int) -> None:
        at = bisect(self._taken, (offset, 0))
        assert self._taken[at][0] == offset, "a region is freed once"
        del self._taken[at]

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
