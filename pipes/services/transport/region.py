"""`Region`: memory that travels with an element."""

from __future__ import annotations

import pickle
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...core.column import Array
from ...core.tensor_data import Stack

if TYPE_CHECKING:
    from .arrow_tables import BatchStream

RegionPart: TypeAlias = "Array | bytes | memoryview | BatchStream | Stack"

ALIGNMENT = 64
"""Bytes; each part begins at a multiple of it."""

_MAX_JOINED_BYTES = 1 << 14  # parts that are smaller on average are joined first, and copied by one call

_BUFFER = pickle.PickleBuffer(bytearray())
in_stream = partial(is_not, _BUFFER)
"""The callback of a pickler: its stream takes in all buffers but those that stand for regions."""


class Region:
    """One piece of memory, and the parts that will be written to it.

    A region can be pickled: its place in the stream becomes a memoryview of what was written.

    Args:
        parts: the first parts.
        nbytes: their bytes.

    Attributes:
        nbytes: the bytes that `write` fills.
    """

    __slots__ = ("_joinable", "_parts", "nbytes")

    def __init__(self, parts: list[RegionPart], nbytes: int) -> None:
        self.nbytes = nbytes
        self._parts = parts
        self._joinable = True

    def add(self, part: RegionPart, size: int, joinable: bool = True) -> int:
        """Appends a part.

        Args:
            part: copied by `write`; it must not change before.
            size: its bytes.
            joinable: whether its bytes are contiguous, in the order that the region will have.

        Returns:
            The offset of the part in the region.
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
        """Copies the parts to `target`, whose address should be a multiple of `ALIGNMENT`."""
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
