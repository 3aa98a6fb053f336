"""`parse_avro`: the records of Avro files.

A file begins with its schema and a marker of 16 random bytes, which ends each block, too. So a range of a file finds
its first block after the first marker that begins in it. fastavro decodes the records.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import accumulate, islice, takewhile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypedDict, Unpack, cast

from ..core.checks import Package
from ..core.cursor import Json
from ..core.lazy import pa
from ..core.skips import OnError
from ..errors import DataError, FeedpipeError, Origin, redacted
from ..formats.protobuf import read_varint, write_varint
from ..formats.streams import MAX_ROW_BYTES, ChunkSize, StreamWindow, unpacked_limit, unpacked_problem
from ..formats.table_format import options_of
from .open_files import check_path_column
from .ranges import ByteRange, RecordFormat
from .units import Malformed, Place, Section, byte_origins, parse

if TYPE_CHECKING:
    from ..pipe import Pipe
    from ..storage.file import File


PACKAGE = Package("fastavro", "fastavro", "avro", "Avro files are read")

_MAGIC = b"Obj\x01"
_MARKER_BYTES = 16
_MAX_HEAD_BYTES = 2**26
_EMPTY_BYTES = 2**6  # about what a record takes in memory that takes no bytes in a file
_NUMBER_BYTES = 20  # at most, of the two numbers that begin a block


class AvroOptions(TypedDict, total=False):
    """The options of `parse_avro`."""

    path_column: str | None


def parse_avro(
    pipe: Pipe[File], /, *, on_error: OnError | None = None, **options: Unpack[AvroOptions]
) -> Pipe[dict[str, object]]:
    """Give the records of each Avro file.

    Element: a dict, with the values that fastavro makes: Python scalars, dates, decimals, lists, dicts. Records of all
    files have the schema of the first file (the first of `for x in pipe`): Avro's rules turn those of other schemas
    into it, where a field may be missing if it has a default. Order: that of the files, and within each that of its
    records. Length: unknown, streamed. State: the byte at which a block of records begins. A resume seeks to it, and
    decodes at most 1 MiB again.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A `shuffle` after this shuffles the order of the ranges as well. Blocks may be compressed by deflate,
    snappy, zstandard, bzip2 or xz. Memory: 1 MiB of blocks, or one block. The format is that of Apache's specification
    of Avro. `pip install 'feedpipe[avro]'` installs fastavro.

    Args:
        path_column: the name of an added key with the path of the file, without a password.
        on_error: what happens to a record that cannot be read; see `map`. Only reading tells where a record ends, so
            the rest of its block is left out with it, and both count as one row.

    Raises:
        ArgumentError: fastavro is not installed.
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file and byte of a block that is damaged or cut short, or of a record that does not fit the
            schema; a file that is not Avro. The rows before the error come first.

    Example:
        >>> import feedpipe as fp, fastavro
        >>> schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "int"}]}
        >>> with open("a.avro", "wb") as file:
        ...     fastavro.writer(file, schema, [{"id": 1}, {"id": 2}])
        >>> list(fp.list_files("a.avro").open_files().parse_avro())
        [{'id': 1}, {'id': 2}]
    """
    return parse(pipe, Avro(**options), on_error)


@options_of(parse_avro, AvroOptions)
@dataclass(frozen=True)
class Avro(RecordFormat):
    """The arguments of `parse_avro`.

    Attributes:
        path_column: the name of an added key with the path of the file.
        schema: that of the first file. The records of all files are given in it.
        source: the first file.
    """

    path_column: str | None = None
    schema: str | None = None
    source: str = ""

    def __post_init__(self) -> None:
        PACKAGE.check()
        check_path_column(self.path_column)

    def identity(self) -> dict[str, Json]:
        return {"call": self.call(), "schema": self.schema}

    def head(self, stream: BinaryIO, path: str) -> tuple[str, str]:
        return _read_head(StreamWindow(stream, path), path).schema, path

    def fix(self, heads: Iterable[tuple[str, str]], paths: Iterable[str]) -> Avro:
        first = next(iter(heads), None)
        return self if first is None else replace(self, schema=first[0], source=first[1])

    def sections(self, stream: BinaryIO, unit: ByteRange, place: Place, chunk_size: ChunkSize) -> Iterator[Section]:
        (offset, before), path = place, unit.file.path
        window = StreamWindow(stream, path)
        blocks = _BlockReader(window, path, unit.stop)
        decode = _Decoder(self, blocks, path)
        at = offset if offset > unit.start else blocks.first(unit.start)
        if at is None:
            return
        for group, error in blocks.groups(at, chunk_size):
            while group:
                rows, malformed, rest = decode.rows(group)
                begin, at = (at, before), rest[0].at if rest else group[-1].end
                before += len(rows) + (malformed is not None)
                is_last = blocks.ended and not rest
                origins = partial(_origins, path, group, len(rows))
                yield Section(rows, begin, None if is_last else (at, before), origins, malformed)
                group = rest
            if error is not None:
                yield Section([], (at, before), (at, before), error=error)


def _origins(path: str, blocks: list[_Block], count: int) -> list[Origin]:
    """The origins of the first records of some blocks: the byte of the block of each."""
    return byte_origins(path, islice((block.at for block in blocks for _ in range(block.records)), count))


class AvroHead(NamedTuple):
    """The head of a file.

    Attributes:
        schema: of its records, as JSON.
        codec: that of its blocks.
        marker: ends each block.
        size: that of the head, in bytes.
    """

    schema: str
    codec: str
    marker: bytes
    size: int


class _Block(NamedTuple):
    """A block of records.

    Attributes:
        records: their number.
        data: their bytes.
        at, end: its bounds in the file.
        error: why it cannot be decompressed.
    """

    records: int
    data: bytes
    at: int
    end: int
    error: DataError | None = None


class _BlockReader:
    """Reads the blocks of a file whose marker before them begins in a range."""

    def __init__(self, window: StreamWindow, path: str, stop: int) -> None:
        self.head = _read_head(window, path)
        self.ended = False
        try:
            self.shape = _Shape(PACKAGE.load().parse_schema(json.loads(self.head.schema)))
        except Exception as error:  # fastavro raises many kinds
            raise DataError(f"{path}: its schema {_reason(error)}") from error
        self._window = window
        self._path = path
        self._stop = stop

    def first(self, start: int) -> int | None:
        """Find the byte at which the first block of the range begins; None if none does."""
        if start <= self.head.size - _MARKER_BYTES:
            return self.head.size if self.head.size - _MARKER_BYTES < self._stop else None
        for at in self._window.scan(start, self._stop, _MARKER_BYTES - 1):
            place = self._window.data.find(self.head.marker)
            if place >= 0:
                return at + place + _MARKER_BYTES if at + place < self._stop else None
        return None

    def groups(self, at: int, size: ChunkSize) -> Iterator[tuple[list[_Block], FeedpipeError | None]]:
        """Read blocks, about the bytes of a chunk at a time, and the error of the next one if it is not found."""
        while not self.ended:
            group: list[_Block] = []
            room = at + size.next()
            error: FeedpipeError | None = None
            while at < room:
                block, error = self._block(at)
                if block is None:
                    break
                group.append(block)
                at = block.end
            if group or error is not None:
                yield group, error
            if error is not None:
                return

    def _block(self, at: int) -> tuple[_Block | None, FeedpipeError | None]:
        """The block at a byte; None at the end of the range, or if its end cannot be found."""
        window = self._window
        if at - _MARKER_BYTES >= self._stop:
            self.ended = True
            return None, None
        try:
            window.advance(at)
        except FeedpipeError as error:
            return None, error
        window.fill(_NUMBER_BYTES)
        if not window.data and window.error is None:
            self.ended = True
            return None, None
        try:
            count, place = _read_long(window.data, 0)
            size, place = _read_long(window.data, place)
            if count < 0 or size < 0:
                raise ValueError
        except ValueError:
            return None, window.error or _error(self._path, at, "no block of records begins here: the file is damaged")
        window.fill(place + size + _MARKER_BYTES)
        data, marker = window.data[place : place + size], window.data[place + size : place + size + _MARKER_BYTES]
        if len(marker) < _MARKER_BYTES:
            return None, window.error or _error(
                self._path, at, "the file is cut short within the block that begins here"
            )
        if marker != self.head.marker:
            return None, _error(self._path, at, "the block that begins here does not end with the marker of the file")
        end = at + place + size + _MARKER_BYTES
        problem: DataError | None = None
        try:
            data = _CODECS[self.head.codec](data)
        except Exception as error:  # each codec has errors of its own
            problem = _error(self._path, at, f"the block that begins here cannot be decompressed: {error}")
        if self.shape.takes_no_bytes and count * _EMPTY_BYTES > MAX_ROW_BYTES:
            reason = f"it has {count} records that take no bytes, more than the limit of a row"
            problem = _error(self._path, at, f"the block that begins here cannot be read: {reason}")
        self._window.fill(end - at + 1)
        self.ended = (window.ended and len(window.data) == end - at) or end - _MARKER_BYTES >= self._stop
        return _Block(count, data, at, end, problem), None


class _Shape:
    """What a schema lets the blocks of a file claim.

    Attributes:
        takes_no_bytes: whether records take no bytes, so that a block may claim any number of them.
        is_recursive: whether it contains itself. fastavro recurses in C without a limit there, so that deeply nested
            records would overflow its stack and end the process.

    Raises:
        ValueError: a list may claim any number of items in a few bytes.
    """

    def __init__(self, schema: object) -> None:
        self.is_recursive = False
        self._empty: dict[str, bool | None] = {}  # None: of a type that is being looked at
        self.takes_no_bytes = self._takes_no_bytes(schema)

    def _takes_no_bytes(self, schema: Any) -> bool:
        if isinstance(schema, list):
            for branch in schema:
                self._takes_no_bytes(branch)
            return False  # the number of the branch comes first
        kind = schema["type"] if isinstance(schema, dict) else schema
        if not isinstance(kind, str):
            return self._takes_no_bytes(kind)
        if kind in ("array", "map"):
            if self._takes_no_bytes(schema["items" if kind == "array" else "values"]) and kind == "array":
                raise ValueError("has a list of items that take no bytes, so that it may claim any number of them")
            return False
        name: str = schema.get("name", "") if isinstance(schema, dict) else ""
        if kind in ("record", "error"):
            self._empty[name] = None
            fields = [self._takes_no_bytes(part["type"]) for part in schema["fields"]]
            empty = all(fields)
        elif kind in self._empty:
            empty = bool(self._empty[kind])
            self.is_recursive |= self._empty[kind] is None
        else:
            empty = kind == "null" or (kind == "fixed" and schema["size"] == 0)
        if name:
            self._empty[name] = empty
        return empty


class _Decoder:
    """Decodes the records of blocks of one file."""

    def __init__(self, form: Avro, blocks: _BlockReader, path: str) -> None:
        head = blocks.head
        PACKAGE.check()
        # In Python, recursion has a limit.
        self._read = import_module("fastavro._read_py" if blocks.shape.is_recursive else "fastavro").reader
        self._path = path
        self._further = {} if form.path_column is None else {form.path_column: redacted(path)}
        # fastavro is given a file without compression.
        metadata = {"avro.schema": head.schema.encode(), "avro.codec": b"null"}
        entries = [_write_bytes(key.encode()) + _write_bytes(value) for key, value in metadata.items()]
        self._head = b"".join([_MAGIC, _write_long(len(entries)), *entries, _write_long(0), head.marker])
        self._marker = head.marker
        other = form.schema is not None and form.schema != head.schema
        self._schema: Any = json.loads(cast("str", form.schema)) if other else None
        self._resolved = f", in the schema of {form.source}," if other else ""

    def rows(self, group: list[_Block]) -> tuple[list[object], Malformed | None, list[_Block]]:
        """Decode blocks up to the first record that cannot be read.

        Returns:
            the rows; that record; the blocks after its own. Only decoding tells where a record of a block ends, so the
            rest of its block is lost with it.
        """
        sound = list(takewhile(lambda block: block.error is None, group))
        bad: int | None = len(sound) if len(sound) < len(group) else None
        problem = None if bad is None else group[bad].error
        rows: list[object] = []
        records = self._records(sound)
        try:
            for row in records:
                if self._further:
                    self._add_path(row)
                rows.append(row)
        except FeedpipeError:
            raise
        except Exception as error:  # fastavro raises many kinds for damaged bytes
            bad = self._block_of(len(rows), sound)
            problem = _error(self._path, sound[bad].at, f"a record of the block here{self._resolved} {_reason(error)}")
        if bad is None or problem is None:
            return rows, None, []
        return rows, Malformed(problem, Origin(self._path, group[bad].at, "byte")), group[bad + 1 :]

    def _records(self, blocks: list[_Block]) -> Iterator[object]:
        parts = [
            part
            for block in blocks
            for part in (_write_long(block.records), _write_long(len(block.data)), block.data, self._marker)
        ]
        try:
            records: Iterator[object] = self._read(io.BytesIO(b"".join([self._head, *parts])), self._schema)
            return records
        except Exception as error:
            raise DataError(f"{self._path}: its schema{self._resolved} {_reason(error)}") from error

    def _block_of(self, number: int, blocks: list[_Block]) -> int:
        """The number of the block that has record `number` of all."""
        ends = list(accumulate(block.records for block in blocks))
        return min(bisect_right(ends, number), len(blocks) - 1)

    def _add_path(self, row: object) -> None:
        if not isinstance(row, dict):
            raise DataError(f"{self._path}: its records are no dicts, so `path_column` has no place in them")
        if not row.keys().isdisjoint(self._further):
            raise DataError(
                f"{self._path} has a field {next(iter(self._further))!r} already; `path_column` needs another"
            )
        row.update(self._further)


def _read_head(window: StreamWindow, path: str) -> AvroHead:
    """Read the head of a file.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no Avro file, is cut short, or has a codec that is not read.
    """
    size = ChunkSize.FIRST_BYTES
    while True:
        window.fill(size)
        data = window.data
        if not data.startswith(_MAGIC[: len(data)]) or (not data and window.ended):
            raise DataError(f"{path} is no Avro file: it begins with {data[:8]!r} instead of {_MAGIC!r}")
        try:
            metadata, at = _read_map(data, len(_MAGIC))
            if at + _MARKER_BYTES <= len(data):
                break
        except ValueError:
            pass
        if window.error is not None:
            raise window.error
        if window.ended or len(data) > _MAX_HEAD_BYTES:
            raise DataError(f"{path} is cut short or damaged: its schema has no end")
        size *= 4
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise DataError(f"{path}: its blocks are compressed by {codec!r}, and those read are {', '.join(_CODECS)}")
    try:
        schema = metadata["avro.schema"].decode()
        json.loads(schema)
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: its schema is no JSON, or is nested too deeply") from error
    return AvroHead(schema, codec, data[at : at + _MARKER_BYTES], at + _MARKER_BYTES)


def _read_map(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    entries: dict[str, bytes] = {}
    while True:
        count, at = _read_long(data, at)
        if count == 0:
            return entries, at
        if count < 0:  # the size of the entries follows
            count = -count
            _, at = _read_long(data, at)
        for _ in range(count):
            key, at = _read_bytes(data, at)
            entries[key.decode()], at = _read_bytes(data, at)


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise ValueError("a value is longer than the data")
    return data[at : at + size], at + size


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a number as Avro writes it: the sign is its lowest bit."""
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _write_long(value: int) -> bytes:
    return write_varint(value << 1)


def _write_bytes(value: bytes) -> bytes:
    return _write_long(len(value)) + value


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "cannot be read: it is nested too deeply"
    return "cannot be read: " + " ".join(f"{type(error).__name__}: {error}".split())


def _error(path: str, at: int, problem: str) -> DataError:
    return DataError(f"{path}, byte {at}: {problem}")


def _snappy(data: bytes) -> bytes:
    body = data[:-4]  # a checksum follows
    size, _ = read_varint(body, 0)
    _check_size(size, len(data))
    unpacked = pa.Codec("snappy").decompress(body, decompressed_size=size, asbytes=True)
    if zlib.crc32(unpacked) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return unpacked


def _zstandard(data: bytes) -> bytes:
    with pa.input_stream(cast("Any", pa.BufferReader(data)), compression="zstd") as stream:
        unpacked = stream.read(unpacked_limit(len(data)) + 1)
    _check_size(len(unpacked), len(data))
    return unpacked


def _bounded(decompress: Callable[[bytes, int], bytes], data: bytes) -> bytes:
    """Decompress by a method of an object of the standard library, which stops at the limit."""
    unpacked = decompress(data, unpacked_limit(len(data)) + 1)
    _check_size(len(unpacked), len(data))
    if not cast("Any", decompress).__self__.eof:
        raise ValueError("it is cut short")
    return unpacked


def _check_size(size: int, packed: int) -> None:
    if problem := unpacked_problem(size, packed):
        raise ValueError(problem)


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: _bounded(zlib.decompressobj(-zlib.MAX_WBITS).decompress, data),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda data: _bounded(bz2.BZ2Decompressor().decompress, data),
    "xz": lambda data: _bounded(lzma.LZMADecompressor().decompress, data),
}
