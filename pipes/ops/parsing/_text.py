"""`TextParser`: what the parsers of CSV, JSON Lines and plain lines share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.operator import Columns, StageView
from ...formats.ranges import MAX_CONTENT_BYTES
from ...formats.text.chunks import ChunkReader, ParsedPart, TextFormat, TextPlace
from ...formats.text.encoding import shown
from ...formats.window import ChunkSize
from ...storage.file import Stream
from ._byte_ranges import ByteRange
from ._parse_ranges import ByteRangeReader, ParseRanges
from ._parse_units import Malformed, Piece, Place

if TYPE_CHECKING:
    import pyarrow as pa

    from ...formats.tables.text_table import TextTable


@dataclass(frozen=True, eq=False)
class TextParser(ParseRanges[TextFormat[Any]]):
    """The base: a subclass names its kind, and says whether it gives columns.

    A place is [bytes before it in the file, line, rows of the range before it], always at the beginning of a chunk;
    within a chunk rows are skipped. A resume seeks to the place; in a compressed file it reads up to there.
    """

    def reader(self, context: Context, block_size: BlockSize) -> _TextReader:
        return _TextReader(self.format, origins=context.tracing.origins)


@dataclass(frozen=True, eq=False)
class TextTableParser(TextParser):
    """The base of the parsers whose rows are those of a table."""

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
