"""Shared memory: the arena through which elements travel, and regions of it.

The worker chooses the place of an element, since it knows the size. The consumer makes arrays directly on that memory,
and reports when the last of them is gone. The file is sparse: a page takes memory once it is written to.
"""

from __future__ import annotations

import ctypes
import mmap
import pickle
import weakref
from bisect import bisect
from collections import deque
from collections.abc import Iterable
from functools import lru_cache, partial
from operator import is_not
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...core.rows import Array, Stack

if TYPE_CHECKING:
    from .arrow_tables import BatchStream

PAGE_BYTES = mmap.PAGESIZE


def rounded_bytes(size: int) -> int:
    """The bytes that a region of `size` bytes takes: whole pages, in few different sizes, so that holes fit again."""
    step = max(PAGE_BYTES, 1 << max(0, size.bit_length() - 5))
    return -(-size // step) * step


class Arena:
    """The worker's side. It reserves the lowest free memory, so that the same pages are used again.

    `leased` has offset and bytes of regions that the consumer still has from an earlier worker.
    """

    def __init__(self, fd: int, size: int, leased: Iterable[tuple[int, int]]) -> None:
        self._map = mmap.mmap(fd, size)
        self._memory = memoryview(self._map)
        self._reserved = {offset: rounded_bytes(count) for offset, count in sorted(leased)}
        ends = [0, *(offset + count for offset, count in self._reserved.items())]
        # Start and end of each free range. Regions that are kept for long lie side by side, so there are few ranges.
        self._holes = list(zip(ends, [*self._reserved, size], strict=True))

    @property
    def capacity(self) -> int:
        """The bytes of the largest element that could ever fit."""
        return len(self._map)

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


@lru_cache(256)
def _exporter(size: int) -> type[ctypes.Array[ctypes.c_char]]:
    # Each lease needs an object of its own: a finalizer on a memoryview of the map would run while arrays still use it.
    return ctypes.c_char * size


# Memory of an element.


RegionPart: TypeAlias = "Array | bytes | memoryview | BatchStream | Stack"

ALIGNMENT = 64
"""Each part begins at a multiple of these bytes."""

_MAX_JOINED_BYTES = 1 << 14  # parts that are smaller on average are joined first, and copied by one call

_BUFFER = pickle.PickleBuffer(bytearray())
in_stream = partial(is_not, _BUFFER)
"""The callback of a pickler: its stream takes in all buffers but those of regions."""


class Region:
    """One piece of memory, and the parts that will be written to it.

    A region can be pickled: its place in the stream becomes a memoryview of what was written.
    """

    __slots__ = ("_joinable", "_parts", "nbytes")

    def __init__(self, parts: list[RegionPart], nbytes: int) -> None:
        self.nbytes = nbytes
        self._parts = parts
        self._joinable = True

    def add(self, part: RegionPart, size: int, joinable: bool = True) -> int:
        """Append a part, which must not change before `write` copies it; return its offset in the region.

        Its bytes are joinable if they are contiguous, in the order that the region will have.
        """
        start = self.nbytes
        self._parts.append(part)
        if not joinable:
            self._joinable = False
        if gap := -size % ALIGNMENT:
            self._parts.append(bytes(gap))
        self.nbytes = start + size + gap
        return start

    def write(self, target: memoryview) -> None:
        """Copy the parts to `target`, whose address should be a multiple of `ALIGNMENT`."""
        if self._joinable and self.nbytes <= _MAX_JOINED_BYTES * len(self._parts):
            target[: self.nbytes] = b"".join(self._parts)  # type: ignore[arg-type]
            return
        start = 0
        for part in self._parts:
            if isinstance(part, (bytes, memoryview)):
                stop = start + len(part)
                target[start:stop] = part
            else:
                stop = start + part.nbytes
                if isinstance(part, np.ndarray):
                    np.ndarray(part.shape, part.dtype, target, start)[...] = part
                else:
                    part.write(target[start:stop])
            start = stop

    def content(self) -> bytes | memoryview:
        """What `write` writes, in memory of its own."""
        if self._joinable:
            return b"".join(self._parts)  # type: ignore[arg-type]
        memory = memoryview(bytearray(self.nbytes))
        self.write(memory)
        return memory

    def __reduce__(self) -> tuple[object, ...]:
        return memoryview, (_BUFFER,)
