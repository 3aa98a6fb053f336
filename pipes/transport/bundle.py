"""What crosses with its message, and not through the arena: a stream, and behind it the memory that belongs to it."""

from __future__ import annotations

from .packing import Packed, unpack


def bundled(packed: Packed) -> tuple[bytes, memoryview]:
    """The body of a message; its first part is the stream."""
    memory = memoryview(bytearray(packed.nbytes))
    packed.write(memory)
    return packed.stream, memory


def unbundled(body: memoryview | bytes, split: int) -> object:
    """What a body holds whose stream has `split` bytes."""
    rest = bytearray(body[split:])  # in memory of its own, where arrays are aligned
    return unpack(body[:split], rest or None)
