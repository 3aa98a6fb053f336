"""What crosses with its message, and not through the arena: a stream, and behind it the memory that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence

from .packing import Packed, unpack
from .region import Region


def bundled(packed: Packed) -> list[bytes | memoryview]:
    """The body of a message: the stream, and each region."""
    return [packed.stream, *map(_written, packed.regions)]


def unbundled(body: memoryview | bytes, sizes: Sequence[int]) -> object:
    """What a body holds whose parts are of such `sizes`."""
    parts: list[memoryview | bytes] = []
    start = 0
    for size in sizes:
        parts.append(body[start : start + size])
        start += size
    stream, *memories = parts
    return unpack(stream, map(bytearray, memories))  # in memory of their own, where arrays are aligned


def _written(region: Region) -> memoryview:
    memory = memoryview(bytearray(region.nbytes))
    region.write(memory)
    return memory
