"""Messages of protobuf, field by field, by the rules of its wire format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""How a field is encoded."""

Field: TypeAlias = "tuple[int, int, bytes | int]"
"""A field of a message: its number, its encoding, and what it holds."""


def read_fields(data: bytes) -> Iterator[Field]:
    """The fields of a message.

    Raises:
        ValueError: the bytes are no message.
    """
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        form = tag & 7
        content: bytes | int
        if form == VARINT:
            content, at = read_varint(data, at)
        else:
            if form == DELIMITED:
                size, at = read_varint(data, at)
            elif form in (FIXED32, FIXED64):
                size = 4 if form == FIXED32 else 8
            else:
                raise ValueError("a field has an encoding that protobuf does not have")
            content = data[at : at + size]
            if len(content) < size:
                raise ValueError("a field is longer than its message")
            at += size
        yield tag >> 3, form, content


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number with seven bits in each byte, and return it with its end.

    Raises:
        ValueError: it does not end.
    """
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("a number has no end")


def write_field(number: int, content: bytes) -> bytes:
    """Encode a field that holds bytes."""
    return bytes([number << 3 | DELIMITED]) + write_varint(len(content)) + content


def write_varint(value: int) -> bytes:
    """Encode a number with seven bits in each byte, a negative one as 64 bits."""
    if 0 <= value < 0x80:
        return bytes([value])
    value &= 0xFFFF_FFFF_FFFF_FFFF
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
