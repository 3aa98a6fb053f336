"""The arena: shared memory through which the elements of one worker travel.

The worker chooses the place of an element, since it knows the size. The consumer makes arrays directly on that memory,
and reports when the last of them is gone. The file is sparse: a page takes memory once it is written to.
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

PAGE_BYTES = mmap.PAGESIZE
NOTE_BYTES = PAGE_BYTES
"""The beginning of the arena, where the worker notes what it is about to run."""


def rounded_bytes(size: int) -> int:
    """The bytes that a region of `size` bytes takes: whole pages, in few different sizes, so that holes fit again."""
    step = max(PAGE_BYTES, 1 << max(0, size.bit_length() - 5))
    return -(-size // step) * step


class Arena:
    """The worker's side. It reserves the lowest free memory, so that the same pages are used again.

    Args:
        fd: the shared memory.
        size: its bytes.
        leased: regions that the consumer still has from an earlier worker: offset and bytes.
    """

    def __init__(self, fd: int, size: int, leased: Iterable[tuple[int, int]]) -> None:
        self._map = mmap.mmap(fd, size)
        self._memory = memoryview(self._map)
        self._reserved = {offset: rounded_bytes(count) for offset, count in sorted(leased)}
        ends = [NOTE_BYTES, *(offset + count for offset, count in self._reserved.items())]
        # Start and end of each free range. Regions that are kept for long lie side by side, so there are few ranges.
        self._holes = list(zip(ends, [*self._reserved, size], strict=True))

    @property
    def capacity(self) -> int:
        """The bytes of the largest element that could ever fit."""
        return len(self._map) - NOTE_BYTES

    def reserve(self, sizes: Iterable[int]) -> list[int] | None:
        """The offsets of regions of these sizes, or None if there is no room for all of them now."""
        offsets: list[int] = []
        for size in sizes:
            offset = self._reserve(rounded_bytes(size))
            if offset is None:
                for reserved in offsets:
                    self.free(reserved)
                return None
            offsets.append(offset)
        return offsets

    def _reserve(self, size: int) -> int | None:
        for i, (start, stop) in enumerate(self._holes):
            if stop - start >= size:
                self._holes[i : i + 1] = [(start + size, stop)] if stop - start > size else []
                self._reserved[start] = size
                return start
        return None

    def free(self, offset: int) -> None:
        start, stop = offset, offset + self._reserved.pop(offset)
        i = bisect(self._holes, (start, stop))
        left = [hole for hole in self._holes[i - 1 : i] if hole[1] == start]
        right = [hole for hole in self._holes[i : i + 1] if hole[0] == stop]
        joined = [*left, (start, stop), *right]
        self._holes[i - len(left) : i + len(right)] = [(joined[0][0], joined[-1][1])]

    def region(self, offset: int, size: int) -> memoryview:
        return self._memory[offset : offset + size]

    def note(self, text: bytes) -> None:
        """Leaves a note that survives this process."""
        text = text[: NOTE_BYTES - 2]
        self._memory[2 : 2 + len(text)] = text
        self._memory[:2] = len(text).to_bytes(2, "little")


class _Lease(weakref.ref[Any]):
    """Watches a region that the consumer uses."""

    __slots__ = ("offset", "size")
    offset: int
    size: int


class Window:
    """The consumer's side. It leases regions, and knows when nobody uses them any more."""

    def __init__(self, fd: int, size: int) -> None:
        self._map = mmap.mmap(fd, size)
        self._leases: dict[int, _Lease] = {}
        self._ended: deque[_Lease] = deque()  # the garbage collector appends to it at any moment, in any thread

    def lease(self, offset: int, size: int) -> ctypes.Array[ctypes.c_char]:
        """The region. It is free again when the returned object, and so each view of it, is gone."""
        owner = _exporter(rounded_bytes(size)).from_buffer(self._map, offset)
        lease = _Lease(owner, self._ended.append)
        lease.offset, lease.size = offset, size
        self._leases[offset] = lease
        return owner

    def take_freed(self) -> list[int]:
        """The offsets of regions that have become free since the last call."""
        offsets: list[int] = []
        while self._ended:
            offset = self._ended.popleft().offset
            del self._leases[offset]
            offsets.append(offset)
        return offsets

    def leased(self) -> list[tuple[int, int]]:
        """Offset and bytes of each region in use."""
        return [(lease.offset, lease.size) for lease in self._leases.values()]

    def note(self) -> bytes:
        """The worker's last note."""
        return self._map[2 : 2 + int.from_bytes(self._map[:2], "little")]


@lru_cache(256)
def _exporter(size: int) -> type[ctypes.Array[ctypes.c_char]]:
    # Each lease needs an object of its own: a finalizer on a memoryview of the map would run while arrays still use it.
    return ctypes.c_char * size
