"""A minimal reader of FlatBuffers: enough to find the parts of an Arrow file.

It trusts nothing: an offset out of bounds is a `struct.error`.

Source: "FlatBuffer Internals", https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from typing import NamedTuple


class FlatbufferTable(NamedTuple):
    """A table: values behind numbered fields, each of which may be missing."""

    data: bytes
    at: int

    @staticmethod
    def root(data: bytes) -> FlatbufferTable:
        """The table that a buffer holds."""
        return FlatbufferTable(data, _unpack("<I", data, 0))

    def field(self, number: int) -> int | None:
        """The offset of the value of a field; None if it is missing."""
        layout = self.at - _unpack("<i", self.data, self.at)
        slot = 4 + 2 * number
        if slot >= _unpack("<H", self.data, layout):
            return None
        place = _unpack("<H", self.data, layout + slot)
        return self.at + place if place else None

    def int64(self, number: int) -> int:
        """The value of a field that is a 64-bit integer; 0 if it is missing."""
        place = self.field(number)
        return 0 if place is None else _unpack("<q", self.data, place)

    def table(self, number: int) -> FlatbufferTable | None:
        """The value of a field that is a table; None if it is missing."""
        place = self.field(number)
        return None if place is None else FlatbufferTable(self.data, place + _unpack("<I", self.data, place))

    def structs(self, number: int, size: int) -> bytes:
        """The value of a field that is a vector of structs of `size` bytes; empty if it is missing."""
        place = self.field(number)
        if place is None:
            return b""
        start = place + _unpack("<I", self.data, place)
        end = start + 4 + size * _unpack("<I", self.data, start)
        if end > len(self.data):
            raise struct.error(f"a vector ends at byte {end} of {len(self.data)}")
        return self.data[start + 4 : end]


def _unpack(kind: str, data: bytes, at: int) -> int:
    if at < 0:  # `struct` would count from the end
        raise struct.error(f"a table at byte {at}")
    value: int = struct.unpack_from(kind, data, at)[0]
    return value
