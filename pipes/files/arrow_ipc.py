"""The heads and footers of Arrow's IPC formats, the file (Feather version 2) and the stream.

They are tables of FlatBuffers; source: "FlatBuffer Internals", https://flatbuffers.dev/internals/. Nothing in them is
trusted: an offset out of bounds is a `struct.error`.
"""

from __future__ import annotations

import io
import struct
from typing import BinaryIO, NamedTuple

import numpy as np

from ..core.lazy import pa
from ..errors import DataError, FeedpipeError
from ..formats.columns import FlatHead, arrow_errors, read_error
from ..formats.streams import read_tail, seal_of
from ..storage.file import Stream
from ..storage.filesystem import Cancellation
from ..storage.tasks import in_threads

_MAGIC = b"ARROW1"
_CONTINUATION = b"\xff\xff\xff\xff"
"""The beginning of each message of a stream, since Arrow 0.15."""
_BLOCK = np.dtype([("offset", "<i8"), ("head", "<i4"), ("", "<i4"), ("body", "<i8")])
_TAIL_BYTES = 2**16  # read at once: most footers are shorter
_MAX_BATCH_ROWS = 2**48


class BatchHead(NamedTuple):
    """The head of a record batch."""

    rows: int
    compressed: bool


class ArrowHead(FlatHead):
    """The columns of a file or stream."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        super().__init__(name, schema.remove_metadata())


class ArrowFooter(ArrowHead):
    """The end of a file, with its columns and the places of its record batches; `seal` changes if the file does."""

    def __init__(self, name: str, schema: pa.Schema, data: bytes, size: int) -> None:
        super().__init__(name, schema)
        self.seal = seal_of(data, size)
        self._size = size
        self._blocks = np.frombuffer(FlatbufferTable.root(data).structs(3, _BLOCK.itemsize), _BLOCK)

    def batch_heads(self, stream: Stream) -> list[BatchHead]:
        """Read the heads of all record batches, but no columns; remote ones in threads."""
        spans: list[tuple[int, int]] = self._blocks[["offset", "head"]].tolist()
        apply = map if stream.remote is None else in_threads
        try:
            return list(apply(lambda span: self._batch_head(stream, *span), spans))
        except FeedpipeError:
            raise
        except ipc_errors() as error:
            raise read_error(error, f"{self.name}: the head of a record batch") from error

    def _batch_head(self, stream: Stream, offset: int, size: int) -> BatchHead:
        if not 0 <= offset <= offset + size <= self._size:
            raise ValueError(f"it should have {size} bytes at {offset}, and the file has {self._size}")
        if stream.remote is None:
            stream.seek(offset)
            data = stream.read(size)
        else:
            data = stream.remote.file.read(offset, size, Cancellation())
        if len(data) < max(size, 8):
            raise ValueError(f"it should have {size} bytes and has {len(data)}")
        head = FlatbufferTable.root(data[8 if data.startswith(_CONTINUATION) else 4 :]).table(2)
        rows = head.int64(0) if head is not None else -1
        if head is None or not 0 <= rows < _MAX_BATCH_ROWS:
            raise ValueError(f"it says that it has {rows} rows")
        return BatchHead(rows, head.field(3) is not None)


def read_arrow_head(stream: io.BufferedReader, name: str) -> ArrowHead:
    """Read the columns of a file or stream; of a file that is not compressed as a whole, its `ArrowFooter`."""
    try:
        begin = stream.peek(8)[:8]
        if begin.startswith(_MAGIC) and stream.seekable():
            return _read_footer(stream, name)
        if not begin:
            raise DataError(f"{name} is empty, but Arrow's formats begin with a head; leave the file out")
        if not begin.startswith((_MAGIC, _CONTINUATION)):
            raise DataError(
                f"{name} is neither an Arrow file nor an Arrow stream: it begins with {begin!r} instead of {_MAGIC!r} "
                f"or {_CONTINUATION!r}"
            )
        return ArrowHead(name, open_stream(stream).schema)
    except FeedpipeError:
        raise
    except ipc_errors() as error:
        raise read_error(error, name) from error


def open_stream(stream: io.BufferedReader) -> pa.RecordBatchStreamReader:
    """Open a reader of the batches of a stream, or of a file from its beginning, since a file holds a stream."""
    if stream.peek(8).startswith(_MAGIC):
        stream.read(8)
    return pa.ipc.open_stream(stream)


def ipc_errors() -> tuple[type[Exception], ...]:
    """The exceptions raised for bytes that are damaged or cannot be read."""
    return *arrow_errors(), struct.error


def _read_footer(stream: BinaryIO, name: str) -> ArrowFooter:
    size = stream.seek(0, io.SEEK_END)
    data = read_tail(stream, name, size, _TAIL_BYTES)
    if data[-len(_MAGIC) :] != _MAGIC:
        raise DataError(f"{name} is cut short: it does not end with {_MAGIC.decode()!r}")
    end = len(_MAGIC) + 4
    length = int.from_bytes(data[-end : -len(_MAGIC)], "little", signed=True)
    if not 0 < length <= size - end - len(_MAGIC):
        raise DataError(f"{name} is damaged: its footer would have {length} bytes, and the file has {size}")
    if length + end > len(data):
        data = read_tail(stream, name, size, length + end)
    # Arrow reads the footer of these bytes as of a whole file.
    schema = pa.ipc.open_file(pa.BufferReader(_MAGIC + b"\0\0" + data[-length - end :])).schema
    return ArrowFooter(name, schema, data[-length - end : -end], size)


class FlatbufferTable(NamedTuple):
    """A table: values after numbered fields, each of which may be missing."""

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
