"""The memory that an element takes with it."""

from __future__ import annotations

import pickle
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...core.rows import Array
from ...core.tensor_data import Stack

if TYPE_CHECKING:
    from .arrow_tables import ArrowStream

Part: TypeAlias = "Array | bytes | memoryview | ArrowStream | Stack"

ALIGNMENT = 64
"""Each part begins at a multiple of so many bytes."""

_JOINED = 1 << 14  # parts of up to so many bytes on average are put together first: one call for all

_BUFFER = pickle.PickleBuffer(bytearray())
in_stream = partial(is_not, _BUFFER)
"""What a pickler asks of each buffer: all are part of its stream, but those that stand for regions."""


class Region:
    """Memory that belongs together, and what is to be written there.

    In a stream, a region stands for itself: who reads it finds a memoryview of what was written.

    Args:
        parts: the first ones.
        nbytes: theirs.

    Attributes:
        nbytes: how many bytes `write` fills.
    """

    __slots__ = ("_joinable", "_parts", "nbytes")

    def __init__(self, parts: list[Part], nbytes: int) -> None:
        self.nbytes = nbytes
        self._parts = parts
        self._joinable = True

    def add(self, part: Part, size: int, joinable: bool = True) -> int:
        """The place of a part of `size` bytes, behind those that are there.

        Args:
            part: copied by `write`, and must not change before.
            size: its bytes.
            joinable: whether its bytes lie in memory as they will in the region.
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
        """Copies the parts to the beginning of `target`, which should be a multiple of `ALIGNMENT`."""
        if self._joinable and self.nbytes <= _JOINED * len(self._parts):
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

    def __reduce__(self) -> tuple[object, ...]:
        return memoryview, (_BUFFER,)
