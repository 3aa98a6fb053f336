"""Byte ranges of files: the units of text and of TFRecord, and their readers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.block import BlockSize
from ..core.context import Context
from ..core.operator import Weights
from ..errors import Origin, SourceError
from ..formats.streams import MAX_CONTENT_BYTES, ChunkSize
from ..formats.text import (
    LAST_RECORD_BYTES,
    TO_END,
    Chunk,
    ChunkReader,
    ParseChunk,
    ParsedPart,
    TextPlace,
    last_line_end,
    shown,
)
from ..storage.file import File, Stream
from ..storage.file_units import Numbers, UnitTable
from ..storage.tasks import in_threads
from .open_files import FileVersions, OpenTask
from .units import Malformed, Place, Section, UnitFormat, UnitReader

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


class RangedFormat(UnitFormat):
    """A format whose files are cut into ranges of bytes, since their bytes show where a record begins.

    A file that is small, compressed, or cannot be split is a single range. Ranges do not count rows, since there may be
    no more of them than files. So if shards divide files, they divide the rows of the parser for the files left over.
    """

    units: ClassVar[str] = "byte_ranges"
    fields: ClassVar[tuple[str, ...]] = ByteRange._fields

    def head(self, stream: BinaryIO, path: str) -> Any:
        """The columns that the beginning of a file shows."""
        return None

    def why_not_split(self) -> str | None:
        """Why files are not split into ranges; None if they are."""
        return None

    def head_of(self, file: File) -> Any:
        with file.open() as stream:
            return self.head(stream, file.path)

    def find_units(self, files: Iterable[File]) -> UnitTable:
        sizes, compressed = self._look_up(iter(files))
        return self.cut_files(sizes, compressed, range_bytes(int(sizes[sizes > 0].sum())))

    def units_in(self, file: File) -> list[tuple[Any, ...]]:
        # The files come in another order each time, and shards divide them whole.
        table = self.cut_files(*self._look_up(iter([file])), MAX_RANGE_BYTES)
        return [self.unit(file, *numbers) for _, *numbers in table.numbers.tolist()]

    def unit(self, file: File, *numbers: int) -> ByteRange:
        start, stop, size, compressed = numbers
        return ByteRange(file, start, stop, size, bool(compressed))

    def start(self, unit: ByteRange) -> Origin:
        return Origin(unit.file.path, unit.start, "byte")

    def weights(self, units: UnitTable) -> Weights:
        start, stop, size = (units.column(name) for name in ("start", "stop", "size"))
        return Weights(np.where(size < 0, -1, np.minimum(stop, size) - start))

    def fraction_before(self, unit: ByteRange, place: Place) -> float:
        offset: int = place[0]
        if unit.size <= 0:
            return 0.0
        if unit.compressed:  # nobody knows how many bytes are left; it comes to 3/4 if they are three to one
            return offset / (offset + unit.size)
        return (offset - unit.start) / max(1, min(unit.stop, unit.size) - unit.start)

    def cut(self, unit: object, first: int, stop: int, slots: int) -> ByteRange | None:
        part = cast("ByteRange", unit)
        if part.size < 0 or part.compressed or self.why_not_split() is not None:
            return None
        length = min(part.stop, part.size) - part.start
        begin, end = (part.start + length * slot // slots for slot in (first, stop))
        return part._replace(start=begin, stop=part.stop if stop == slots else end)

    def unit_remark(self, units: UnitTable) -> str | None:
        reason = self.why_not_split()
        large = int(((units.column("size") > MAX_RANGE_BYTES) & (units.column("compressed") == 0)).sum())
        if reason is None or not large:
            return None
        return f"{large} large file{'s are' if large > 1 else ' is'} not split: {reason}"

    def cut_files(self, sizes: Numbers, compressed: npt.NDArray[np.bool_], length: int) -> UnitTable:
        """The ranges of files of these sizes, cut into equal parts of at most `length` bytes."""
        counts = np.maximum(1, -(-sizes // length))
        counts[compressed | (self.why_not_split() is not None)] = 1
        files = np.repeat(np.arange(len(sizes)), counts)
        numbers = np.arange(len(files)) - np.repeat(np.cumsum(counts) - counts, counts)

        def before(number: Numbers) -> Numbers:
            """The bytes before a range of its file: `size * number // count`, which may be too large for an int64."""
            whole, rest = np.divmod(sizes, counts)
            return number * whole[files] + number * rest[files] // counts[files]

        stops = np.where(numbers + 1 == counts[files], TO_END, before(numbers + 1))
        columns = [files, before(numbers), stops, sizes[files], compressed[files].astype(np.int64)]
        return UnitTable(self.fields, np.stack(columns, axis=1))

    def _look_up(self, files: Iterator[File]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The sizes of files, and which of them are compressed."""
        sizes: list[int] = []
        compressed: list[bool] = []
        while part := list(islice(files, _FILES_AT_A_TIME)):
            asks = self.why_not_split() is None and any(file.listed is None for file in part)
            sizes.extend(in_threads(_size, part) if asks else [_listed_size(file) for file in part])
            compressed.extend([file.is_compressed() for file in part])
        return np.array(sizes, np.int64), np.array(compressed, np.bool_)


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


class ByteRangeReader(UnitReader[ByteRange, OpenTask]):
    """The base of readers of byte ranges: a subclass reads the rows of an open file."""

    bytes_before: ClassVar[int] = 0
    """The bytes before a range that are read to find its first record."""

    def __init__(self) -> None:
        self._versions = FileVersions()
        self.chunk_size = ChunkSize()

    def begin(self, unit: ByteRange, early: bool) -> OpenTask:
        # A user may look at the first rows of a run only, so all of the first file is not requested at once. The last
        # record of a range ends after it.
        is_range = unit.start > 0 or unit.stop < unit.size
        part = range(max(0, unit.start - self.bytes_before), unit.stop + LAST_RECORD_BYTES)
        return OpenTask(unit.file, part if early or is_range else None)

    def sections(self, unit: ByteRange, opened: OpenTask, place: Place) -> Iterator[Section]:
        with opened.result() as stream:
            self._versions.check(unit.file, stream)
            yield from self.sections_of(stream, unit, place)

    @abstractmethod
    def sections_of(self, stream: Stream, unit: ByteRange, place: Place) -> Iterator[Section]:
        """Read the rows of a unit of an open file from `place` on."""


class TextFormat(RangedFormat):
    """A format of text, in which each line break ends a record if files are split.

    A place is [bytes before it in the file, line, rows of the range before it], always at the beginning of a chunk;
    within a chunk rows are skipped. A resume seeks to the place; in a compressed file it reads up to there.
    """

    def as_utf8(self, stream: BinaryIO, path: str) -> BinaryIO:
        """The stream of a file, decoded if a parser needs that."""
        return stream

    def last_record_end(self, data: bytes) -> int:
        """The end of the last whole record of `data`; 0 if it holds none."""
        return last_line_end(data)

    @abstractmethod
    def start_reading(self, reader: ChunkReader) -> tuple[TextPlace, ParseChunk]:
        """Where the records of a file begin, and the function that parses its chunks."""

    @abstractmethod
    def row_lines(self, chunk: Chunk) -> list[int]:
        """The line of each row of a chunk."""

    def reader(self, context: Context, block_size: BlockSize) -> _TextReader:
        return _TextReader(self)


class _TextReader(ByteRangeReader):
    beginning: ClassVar[Place] = (*TextPlace(), 0)
    bytes_before: ClassVar[int] = 1  # a line break there ends the last record of the range before

    def __init__(self, format: TextFormat) -> None:
        super().__init__()
        self._format = format
        self._line_counts: dict[str, list[int]] = {}

    def sections_of(self, stream: Stream, unit: ByteRange, place: Place) -> Iterator[Section]:
        offset, line, before = place
        path = unit.file.path
        text = self._format.as_utf8(stream, path)
        reader = ChunkReader(text, path, self._format.last_record_end, unit.start, unit.stop, self._line_counts)
        begin, parse = self._format.start_reading(reader)
        at = TextPlace(offset, line) if offset > unit.start else reader.first_record(begin)
        for chunk in reader.chunks(at, self.chunk_size):
            for part in parse(chunk, before):
                yield self._section(reader, part, before)
                before += len(part.rows) if part.error is None else 1

    def _section(self, reader: ChunkReader, part: ParsedPart, before: int) -> Section:
        chunk = part.chunk
        after = before + (1 if part.error is not None else len(part.rows))
        at, end = (*chunk.at, before), None if chunk.last else (*chunk.end, after)
        if part.error is None:
            return Section(part.rows, at, end, lambda: reader.origins(chunk, self._format.row_lines(chunk)))
        (origin,) = reader.origins(chunk, [chunk.at.line])
        content = shown(chunk.data[:MAX_CONTENT_BYTES]).rstrip("\r\n")
        return Section([], at, end, None, Malformed(part.error, origin, content))
