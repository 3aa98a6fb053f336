"""Byte ranges of files: the units of text, of TFRecord and of Avro, and the bases of their parsers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import BlockSize
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator, StageView, Weights
from ..core.skips import OnError, check_on_error
from ..errors import Origin, SourceError
from ..formats.streams import MAX_CONTENT_BYTES, ChunkSize, RangedFormat, RecordFormat
from ..formats.text import LAST_RECORD_BYTES, TO_END, ChunkReader, ParsedPart, TextFormat, TextPlace, shown
from ..storage.file import File, Stream
from ..storage.tasks import in_threads
from .open_files import FileVersions, OpenTask
from .units import Malformed, Numbers, ParseUnits, Piece, Place, UnitReader, Units, UnitTable

if TYPE_CHECKING:
    import pyarrow as pa

    from ..formats.table_format import TextTable

MAX_RANGE_BYTES = 2**25
"""The longest range. Each range costs two requests, which is little beside 32 MiB."""
MIN_RANGE_BYTES = 2**18
"""The shortest range that is cut off; shorter ones would cost more to open than to read."""
_RANGES = 2**10  # in all files together: enough for many shards, few enough to list
_FILES_AT_A_TIME = 2**10  # they exist as Python objects meanwhile


class ByteRange(NamedTuple):
    """A handle on the records that begin in a range of a file.

    Attributes:
        file: the file.
        start, stop: the bytes of the file before the range, and before its end.
        size: of the file, in bytes; -1 if it is unknown.
        compressed: whether the file is.
    """

    file: File
    start: int
    stop: int
    size: int
    compressed: bool


@dataclass(frozen=True, eq=False)
class ByteRanges(Units[RangedFormat[Any], ByteRange]):
    """A handle for each range of each file; a single one for a file that is small, compressed, or cannot be split.

    It does not declare that it expands, since there may be no more ranges than files. So if shards divide files, they
    divide the rows of the parser for the files left over.
    """

    kind: ClassVar[str] = "byte_ranges"
    fields: ClassVar[tuple[str, ...]] = ByteRange._fields

    def head(self, file: File) -> object:
        with file.open() as stream:
            return self.format.head(stream, file.path)

    def find_units(self, files: Iterator[File]) -> UnitTable:
        sizes, compressed = self._look_up(files)
        return self._table(sizes, compressed, range_bytes(int(sizes[sizes > 0].sum())))

    def units_in(self, file: File) -> list[ByteRange]:
        # The files come in another order each time, and shards divide them whole.
        table = self._table(*self._look_up(iter([file])), MAX_RANGE_BYTES)
        return [self.unit(file, *numbers) for _, *numbers in table.numbers.tolist()]

    def unit(self, file: File, *numbers: int) -> ByteRange:
        start, stop, size, compressed = numbers
        return ByteRange(file, start, stop, size, bool(compressed))

    def start(self, unit: ByteRange) -> Origin:
        return Origin(unit.file.path, unit.start, "byte")

    def weights(self, stage: StageView, context: Context) -> Weights:
        start, stop, size = (self.resolved_table.column(name) for name in ("start", "stop", "size"))
        return Weights(np.where(size < 0, -1, np.minimum(stop, size) - start))

    def cut(self, unit: object, first: int, stop: int, slots: int) -> ByteRange | None:
        part = cast("ByteRange", unit)
        if part.size < 0 or part.compressed or self.format.why_not_split() is not None:
            return None
        length = min(part.stop, part.size) - part.start
        begin, end = (part.start + length * slot // slots for slot in (first, stop))
        return part._replace(start=begin, stop=part.stop if stop == slots else end)

    def remark(self, stage: StageView) -> str | None:
        reason = self.format.why_not_split()
        if self.table is None or reason is None:
            return None
        large = int(((self.table.column("size") > MAX_RANGE_BYTES) & (self.table.column("compressed") == 0)).sum())
        if not large:
            return None
        return f"{large} large file{'s are' if large > 1 else ' is'} not split: {reason}"

    def _look_up(self, files: Iterator[File]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The sizes of files, and which of them are compressed."""
        sizes: list[int] = []
        compressed: list[bool] = []
        while part := list(islice(files, _FILES_AT_A_TIME)):
            asks = self.format.why_not_split() is None and any(file.listed is None for file in part)
            sizes.extend(in_threads(_size, part) if asks else [_listed_size(file) for file in part])
            compressed.extend([file.is_compressed() for file in part])
        return np.array(sizes, np.int64), np.array(compressed, np.bool_)

    def _table(self, sizes: Numbers, compressed: npt.NDArray[np.bool_], length: int) -> UnitTable:
        """The ranges of files of these sizes, cut into equal parts of at most `length` bytes."""
        counts = np.maximum(1, -(-sizes // length))
        counts[compressed | (self.format.why_not_split() is not None)] = 1
        files = np.repeat(np.arange(len(sizes)), counts)
        numbers = np.arange(len(files)) - np.repeat(np.cumsum(counts) - counts, counts)

        def before(number: Numbers) -> Numbers:
            """The bytes before a range of its file: `size * number // count`, which may be too large for an int64."""
            whole, rest = np.divmod(sizes, counts)
            return number * whole[files] + number * rest[files] // counts[files]

        stops = np.where(numbers + 1 == counts[files], TO_END, before(numbers + 1))
        columns = [files, before(numbers), stops, sizes[files], compressed[files].astype(np.int64)]
        return UnitTable(self.fields, np.stack(columns, axis=1))


def range_bytes(total: int) -> int:
    """The longest range of files that have `total` bytes together. It depends on the data alone, never on ranks."""
    return min(max(total // _RANGES, MIN_RANGE_BYTES), MAX_RANGE_BYTES)


def _listed_size(file: File) -> int:
    return -1 if file.listed is None else file.listed


def _size(file: File) -> int:
    if file.listed is not None or file.is_compressed():
        return _listed_size(file)
    try:
        return file.size()
    except SourceError:  # the reader raises it again, after the rows of the files before
        return -1


F = TypeVar("F", bound="RangedFormat[Any]")


def call_with_policy(form: RangedFormat[Any], on_error: OnError | None) -> str:
    """The call of a chain function with its options and `on_error`, as code."""
    call = form.call()
    if on_error is None:
        return call
    return f"{call[:-1]}{'' if call.endswith('()') else ', '}on_error={value_code(on_error)})"


@dataclass(frozen=True, eq=False)
class ParseRanges(ParseUnits[ByteRange], Generic[F]):
    """The base of parsers of byte ranges: a subclass names its kind and its columns, and makes a reader."""

    format: F = field(repr=False)
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def call(self) -> str:
        return call_with_policy(self.format, self.on_error)

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        return replace(self, format=cast("F", cast("ByteRanges", stage.input.op).format))


class ByteRangeReader(UnitReader[ByteRange, OpenTask]):
    """The base of readers of byte ranges: a subclass reads the rows of an open file."""

    bytes_before: ClassVar[int] = 0
    """The bytes before a range that are read to find its first record."""

    def __init__(self) -> None:
        self._versions = FileVersions()

    def start_reading(self, unit: ByteRange, early: bool) -> OpenTask:
        # A user may look at the first rows of a run only, so all of the first file is not requested at once. The last
        # record of a range ends behind it.
        is_range = unit.start > 0 or unit.stop < unit.size
        part = range(max(0, unit.start - self.bytes_before), unit.stop + LAST_RECORD_BYTES)
        return OpenTask(unit.file, part if early or is_range else None)

    def pieces(self, unit: ByteRange, opened: OpenTask, place: Place) -> Iterator[Piece]:
        with opened.result() as stream:
            self._versions.check(unit.file, stream)
            yield from self.pieces_of(stream, unit, place)

    @abstractmethod
    def pieces_of(self, stream: Stream, unit: ByteRange, place: Place) -> Iterator[Piece]:
        """Read the rows of a unit of an open file from `place` on."""


@dataclass(frozen=True, eq=False)
class ParseRecords(ParseRanges[RecordFormat[Any]]):
    """The base of parsers of records, such as those of TFRecord and Avro: a subclass names its kind and its columns.

    A place is [byte at which a record or a block of records begins, rows before the place]. A resume seeks to it; in a
    compressed file it reads up to there.
    """

    def reader(self, context: Context, block_size: BlockSize) -> _RecordReader:
        return _RecordReader(self.format, origins=context.tracing.origins)


class _RecordReader(ByteRangeReader):
    beginning: ClassVar[Place] = (0, 0)

    def __init__(self, format: RecordFormat[Any], *, origins: bool) -> None:
        super().__init__()
        self._format = format
        self._origins = origins
        self._chunk_size = ChunkSize()

    def pieces_of(self, stream: Stream, unit: ByteRange, place: Place) -> Iterator[Piece]:
        path = unit.file.path
        parts = self._format.parts(stream, path, range(unit.start, unit.stop), place, self._chunk_size)
        for rows, at, end, offsets, bad, error in parts:
            if (bad is not None or error is not None) and stream.remote is not None:
                stream.remote.check_unchanged()  # its error tells more than a checksum
            malformed = None
            if bad is not None:
                malformed = Malformed(bad.error, Origin(path, bad.offset, "byte"), bad.content)
            origins: list[Origin | None] | None = None
            if self._origins:
                origins = [Origin(path, offset, "byte") for offset in offsets[: len(rows)]]
            yield Piece(rows, at, end, origins, malformed, error)


@dataclass(frozen=True, eq=False)
class TextParser(ParseRanges[TextFormat[Any]]):
    """The base of parsers of CSV, JSON Lines and plain lines: a subclass names its kind and its columns.

    A place is [bytes before it in the file, line, rows of the range before it], always at the beginning of a chunk;
    within a chunk rows are skipped. A resume seeks to the place; in a compressed file it reads up to there.
    """

    def reader(self, context: Context, block_size: BlockSize) -> _TextReader:
        return _TextReader(self.format, origins=context.tracing.origins)


@dataclass(frozen=True, eq=False)
class TextTableParser(TextParser):
    """The base of parsers of text whose rows are those of a table."""

    columns: ClassVar[Columns] = Columns.MAKES

    def schema(self, stage: StageView) -> pa.Schema | None:
        return cast("TextTable", self.format).row_schema()


class _TextReader(ByteRangeReader):
    beginning: ClassVar[Place] = (*TextPlace(), 0)
    bytes_before: ClassVar[int] = 1  # a line break there ends the last record of the range before

    def __init__(self, format: TextFormat[Any], *, origins: bool) -> None:
        super().__init__()
        self._format = format
        self._origins = origins
        self._chunk_size = ChunkSize()
        self._line_counts: dict[str, list[int]] = {}

    def pieces_of(self, stream: Stream, unit: ByteRange, place: Place) -> Iterator[Piece]:
        offset, line, before = place
        text = self._format.as_utf8(stream, unit.file.path)
        reader = ChunkReader(
            text, unit.file.path, self._format.last_record_end, unit.start, unit.stop, self._line_counts
        )
        begin, parse = self._format.start_reading(reader)
        at = TextPlace(offset, line) if offset > unit.start else reader.first_record(begin)
        for chunk in reader.chunks(at, self._chunk_size):
            for part in parse(chunk, before):
                yield self._piece(reader, part, before)
                before += len(part.rows) if part.error is None else 1

    def _piece(self, reader: ChunkReader, part: ParsedPart, before: int) -> Piece:
        chunk = part.chunk
        at: Place = (*chunk.at, before)
        if part.error is not None:
            (origin,) = reader.origins(chunk, [chunk.at.line])
            content = shown(chunk.data[:MAX_CONTENT_BYTES]).rstrip("\r\n")
            end = None if chunk.last else (*chunk.end, before + 1)
            return Piece([], at, end, None, Malformed(part.error, origin, content))
        origins = reader.origins(chunk, self._format.row_lines(chunk)) if self._origins else None
        return Piece(part.rows, at, None if chunk.last else (*chunk.end, before + len(part.rows)), origins)
