"""The little of FlatBuffers that it takes to find the parts of an Arrow file.

Arrow checks such tables before it reads them; here a place out of bounds is a `struct.error`, and nothing is trusted.

Source: "FlatBuffer Internals", https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from typing import NamedTuple


class Table(NamedTuple):
    """A table: values behind numbered fields, each of which may be missing."""

    data: bytes
    at: int

    @staticmethod
    def root(data: bytes) -> Table:
        """The table that a buffer holds."""
        return Table(data, _read("<I", data, 0))

    def field(self, number: int) -> int | None:
        """Where the value of a field stands."""
        layout = self.at - _read("<i", self.data, self.at)
        slot = 4 + 2 * number
        if slot >= _read("<H", self.data, layout):
            return None
        place = _read("<H", self.data, layout + slot)
        return self.at + place if place else None

    def int64(self, number: int) -> int:
        """The value of a field that is a long integer; 0 where it is missing."""
        place = self.field(number)
        return 0 if place is None else _read("<q", self.data, place)

    def table(self, number: int) -> Table | None:
        """The value of a field that is a table."""
        place = self.field(number)
        return None if place is None else Table(self.data, place + _read("<I", self.data, place))

    def structs(self, number: int, size: int) -> bytes:
        """The values of a field that is a vector of structs of `size` bytes."""
        place = self.field(number)
        if place is None:
            return b""
        start = place + _read("<I", self.data, place)
        end = start + 4 + size * _read("<I", self.data, start)
        if end > len(self.data):
            raise struct.error(f"a vector ends at byte {end} of {len(self.data)}")
        return self.data[start + 4 : end]


def _read(kind: str, data: bytes, at: int) -> int:
    if at < 0:  # counts from the end, to Python
        raise struct.error(f"a table at byte {at}")
    value: int = struct.unpack_from(kind, data, at)[0]
    return value
