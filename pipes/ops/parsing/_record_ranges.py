"""`ParseRecords`: the base of parsers of records in ranges of bytes, such as those of TFRecord and Avro."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.cursor import Json
from ...core.operator import Operator, StageView
from ...errors import DataError, Origin
from ...formats.ranges import RecordFormat
from ...formats.text.chunks import LAST_RECORD_BYTES
from ._byte_ranges import ByteRange, ByteRanges
from ._open_files import FileVersions, OpenTask
from ._parse_units import Malformed, ParseUnits, Piece, Place, UnitReader


@dataclass(frozen=True, eq=False)
class ParseRecords(ParseUnits[ByteRange]):
    """The base: a subclass names its kind, and says whether it gives columns.

    A place is [byte at which a record or a block of records begins, rows before the place]. A resume seeks to it; in a
    compressed file it reads up to there.
    """

    format: RecordFormat[Any] = field(repr=False)

    def call(self) -> str:
        return self.format.call()

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        return replace(self, format=cast("RecordFormat[Any]", cast("ByteRanges", stage.input.op).format))

    def reader(self, context: Context, block_size: BlockSize) -> _RecordRangeReader:
        return _RecordRangeReader(self.format, origins=context.tracing.origins)


class _RecordRangeReader(UnitReader[ByteRange, OpenTask]):
    beginning: ClassVar[Place] = (0, 0)

    def __init__(self, format: RecordFormat[Any], *, origins: bool) -> None:
        self._format = format
        self._origins = origins
        self._versions = FileVersions()

    def is_remote(self, unit: ByteRange) -> bool:
        return not unit.file.is_local()

    def start_reading(self, unit: ByteRange, early: bool) -> OpenTask:
        # A user may look at the first rows of a run only, so all of the first file is not requested at once. The last
        # record of a range ends behind it.
        is_range = unit.start > 0 or unit.stop < unit.size
        return OpenTask(unit.file, range(unit.start, unit.stop + LAST_RECORD_BYTES) if early or is_range else None)

    def pieces(self, unit: ByteRange, opened: OpenTask, place: Place) -> Iterator[Piece]:
        path = unit.file.path
        with opened.result() as stream:
            self._versions.check(unit.file, stream)
            for rows, at, end, offsets, error in self._format.parts(stream, path, range(unit.start, unit.stop), place):
                if error is not None and stream.remote is not None:
                    stream.remote.check_unchanged()  # it tells more than a checksum
                malformed = Malformed(error, None, None) if isinstance(error, DataError) else None
                yield Piece(rows, at, end, self._origins_of(path, offsets, len(rows)), malformed)
                if error is not None:
                    raise error

    def _origins_of(self, path: str, offsets: list[int], count: int) -> list[Origin | None] | None:
        return [Origin(path, offset, "byte") for offset in offsets[:count]] if self._origins else None
