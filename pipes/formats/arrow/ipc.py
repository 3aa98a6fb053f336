"""Arrow's IPC formats, the file (Feather version 2) and the stream: what they say of themselves."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ...errors import DataError, FeedpipeError
from ..tables.arrow import broken, failures
from ..tables.typed import Typed
from ..text.streams import tail
from .flatbuffer import Table

if TYPE_CHECKING:
    import pyarrow as pa

_MAGIC = b"ARROW1"
_CONTINUED = b"\xff\xff\xff\xff"
"""What each message of a stream begins with, since Arrow 0.15."""
_BLOCK = np.dtype([("offset", "<i8"), ("head", "<i4"), ("", "<i4"), ("body", "<i8")])
_TAIL = 2**16  # read at once: most footers are no longer
_MOST_ROWS = 2**48


@dataclass(frozen=True, eq=False)
class ArrowIpc(Typed):
    """The user's options; `fixed` once the first file has been looked at."""

    kind: ClassVar[str] = "parse_arrow"

    indexed: bool = False

    def own(self) -> list[str]:
        return ["indexed=True"] if self.indexed else []


class Batch(NamedTuple):
    """What the head of a record batch says."""

    rows: int
    compressed: bool


Head: TypeAlias = tuple[int, int]
"""Where the head of a record batch is, and how many bytes it takes."""
Read: TypeAlias = Callable[[int, int], bytes]
Apply: TypeAlias = Callable[[Callable[[Head], Batch], Iterable[Head]], Iterable[Batch]]


class Names:
    """The columns of a file or stream."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema.remove_metadata()
        self.names: list[str] = schema.names
        for kind in schema.types:
            _check_text(kind)

    def knows(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that it has."""
        return [name for name in names if name in self.names]

    def reading(self, columns: Sequence[str] | None) -> pa.Schema:
        """Names and types of what is read where only `columns` are."""
        import pyarrow as pa

        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])


class Footer(Names):
    """What stands at the end of a file.

    Attributes:
        seal: a number that is another where the file has changed.
    """

    def __init__(self, name: str, schema: pa.Schema, data: bytes, size: int) -> None:
        super().__init__(name, schema)
        digest = hashlib.blake2b(data + size.to_bytes(8, "little"), digest_size=8).digest()
        self.seal = int.from_bytes(digest, "little", signed=True)
        self._size = size
        self._blocks = np.frombuffer(Table.root(data).structs(3, _BLOCK.itemsize), _BLOCK)

    def batches(self, read: Read, apply: Apply = map) -> list[Batch]:
        """What the heads of all record batches say; reads no columns.

        Args:
            read: gives the bytes at an offset, so many.
            apply: `map`, or what does the same in threads.
        """
        heads: list[Head] = self._blocks[["offset", "head"]].tolist()
        try:
            return list(apply(lambda head: self._batch(read, *head), heads))
        except broken_ipc() as error:
            raise told(error, f"{self.name}: the head of a record batch") from error

    def _batch(self, read: Read, offset: int, size: int) -> Batch:
        if not 0 <= offset <= offset + size <= self._size:
            raise ValueError(f"it should have {size} bytes at {offset}, and the file has {self._size}")
        data = read(offset, size)
        if len(data) < max(size, 8):
            raise ValueError(f"it should have {size} bytes and has {len(data)}")
        head = Table.root(data[8 if data.startswith(_CONTINUED) else 4 :]).table(2)
        rows = head.int64(0) if head is not None else -1
        if head is None or not 0 <= rows < _MOST_ROWS:
            raise ValueError(f"it says that it has {rows} rows")
        return Batch(rows, head.field(3) is not None)


def read_names(stream: io.BufferedReader, name: str) -> Names:
    """The columns of a file or stream; of a file that is not compressed as a whole, its `Footer`.

    Raises:
        SourceError: it cannot be read.
        DataError: it is neither, or is cut short or damaged.
    """
    try:
        begin = stream.peek(8)[:8]
        if begin.startswith(_MAGIC) and stream.seekable():
            return _read_footer(stream, name)
        if not begin:
            raise DataError(f"{name} is empty: it has not a byte, where Arrow's formats have a head; leave it out")
        if not begin.startswith((_MAGIC, _CONTINUED)):
            raise DataError(
                f"{name} is neither a file nor a stream of Arrow's: it begins with {begin!r}, where {_MAGIC!r} or "
                f"{_CONTINUED!r} should stand"
            )
        return Names(name, open_stream(stream).schema)
    except broken_ipc() as error:
        raise told(error, name) from error


def open_stream(stream: io.BufferedReader) -> pa.RecordBatchStreamReader:
    """A reader of the batches of a stream, or of a file from its beginning: that has a stream within."""
    import pyarrow as pa

    if stream.peek(8).startswith(_MAGIC):
        stream.read(8)
    return pa.ipc.open_stream(stream)


def broken_ipc() -> tuple[type[Exception], ...]:
    """What is raised at bytes that are not what they should be, or cannot be had."""
    return *failures(), struct.error


def told(error: Exception, what: str) -> FeedpipeError:
    """The error of this tree for one of reading `what`."""
    return error if isinstance(error, FeedpipeError) else broken(error, what)


def _check_text(kind: Any) -> None:
    """Raises a `UnicodeDecodeError` where a name inside a type is no text; else rows would, much later."""
    import pyarrow as pa

    for part in kind if pa.types.is_struct(kind) else ():
        _ = part.name
        _check_text(part.type)
    for inner in ("value_type", "item_type", "storage_type"):
        if hasattr(kind, inner):
            _check_text(getattr(kind, inner))


def _read_footer(stream: BinaryIO, name: str) -> Footer:
    import pyarrow as pa

    size = stream.seek(0, io.SEEK_END)
    data = tail(stream, name, size, _TAIL)
    if data[-len(_MAGIC) :] != _MAGIC:
        raise DataError(f"{name} is cut short: it does not end with {_MAGIC.decode()!r}")
    end = len(_MAGIC) + 4
    length = int.from_bytes(data[-end : -len(_MAGIC)], "little", signed=True)
    if not 0 < length <= size - end - len(_MAGIC):
        raise DataError(f"{name} is damaged: its footer would have {length} bytes, and the file has {size}")
    if length + end > len(data):
        data = tail(stream, name, size, length + end)
    # To Arrow, these bytes are a file of which it reads the footer.
    schema = pa.ipc.open_file(pa.BufferReader(_MAGIC + b"\0\0" + data[-length - end :])).schema
    return Footer(name, schema, data[-length - end : -end], size)
