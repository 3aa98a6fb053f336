"""`TextParser`: what the parsers of CSV, JSON Lines and plain lines share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ...core.block_size import BlockSize
from ...core.code import value_code
from ...core.context import Context
from ...core.cursor import Json
from ...core.operator import Columns, Operator, StageView
from ...core.policy import OnError, check_on_error
from ...formats.text.chunks import LAST_RECORD_BYTES, ChunkReader, ChunkSize, ParsedPart, TextFormat, TextPlace
from ...formats.text.encoding import shown
from ._byte_ranges import ByteRange, ByteRanges
from ._open_files import FileVersions, OpenTask
from ._parse_units import Malformed, ParseUnits, Piece, Place, UnitReader

if TYPE_CHECKING:
    import pyarrow as pa

    from ...formats.tables.text_table import TextTable

MAX_CONTENT_BYTES = 2**10
"""So much of a malformed record is decoded for its record."""


@dataclass(frozen=True, eq=False)
class TextParser(ParseUnits[ByteRange]):
    """The base: a subclass names its kind, and says whether it gives columns.

    A place is [bytes before it in the file, line, rows of the range before it], always at the beginning of a chunk;
    within a chunk rows are skipped. A resume seeks to the place; in a compressed file it reads up to there.
    """

    format: TextFormat[Any] = field(repr=False)
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def call(self) -> str:
        call = self.format.call()
        if self.on_error is None:
            return call
        return f"{call[:-1]}{'' if call.endswith('()') else ', '}on_error={value_code(self.on_error)})"

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        return replace(self, format=cast("TextFormat[Any]", cast("ByteRanges", stage.input.op).format))

    def reader(self, context: Context, block_size: BlockSize) -> _ByteRangeReader:
        return _ByteRangeReader(self.format, origins=context.tracing.origins)


@dataclass(frozen=True, eq=False)
class TextTableParser(TextParser):
    """The base of the parsers whose rows are those of a table."""

    columns: ClassVar[Columns] = Columns.MAKES

    def schema(self, stage: StageView) -> pa.Schema | None:
        return cast("TextTable", self.format).row_schema()


class _ByteRangeReader(UnitReader[ByteRange, OpenTask]):
    beginning: ClassVar[Place] = (*TextPlace(), 0)

    def __init__(self, format: TextFormat[Any], *, origins: bool) -> None:
        self._format = format
        self._origins = origins
        self._chunk_size = ChunkSize()
        self._versions = FileVersions()
        self._line_counts: dict[str, list[int]] = {}

    def is_remote(self, unit: ByteRange) -> bool:
        return not unit.file.is_local()

    def start_reading(self, unit: ByteRange, early: bool) -> OpenTask:
        # A user may look at the first rows of a run only, so all of the first file is not requested at once. A range
        # is found from the byte before it, and its last record ends behind it.
        is_range = unit.start > 0 or unit.stop < unit.size
        part = range(max(0, unit.start - 1), unit.stop + LAST_RECORD_BYTES) if early or is_range else None
        return OpenTask(unit.file, part)

    def pieces(self, unit: ByteRange, opened: OpenTask, place: Place) -> Iterator[Piece]:
        offset, line, before = place
        with opened.result() as stream:
            self._versions.check(unit.file, stream)
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
