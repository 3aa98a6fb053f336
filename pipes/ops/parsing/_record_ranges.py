"""`ParseRecords`: the base of parsers of records in ranges of bytes, such as those of TFRecord and Avro."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.block_size import BlockSize
from ...core.context import Context
from ...errors import Origin
from ...formats.ranges import RecordFormat
from ...formats.window import ChunkSize
from ...storage.file import Stream
from ._byte_ranges import ByteRange
from ._parse_ranges import ByteRangeReader, ParseRanges
from ._parse_units import Malformed, Piece, Place


@dataclass(frozen=True, eq=False)
class ParseRecords(ParseRanges[RecordFormat[Any]]):
    """The base: a subclass names its kind, and says whether it gives columns.

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
                stream.remote.check_unchanged()  # it tells more than a checksum
            malformed = None
            if bad is not None:
                malformed = Malformed(bad.error, Origin(path, bad.offset, "byte"), bad.content)
            origins: list[Origin | None] | None = None
            if self._origins:
                origins = [Origin(path, offset, "byte") for offset in offsets[: len(rows)]]
            yield Piece(rows, at, end, origins, malformed, error)
