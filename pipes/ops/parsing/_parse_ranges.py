"""`ParseRanges`: the base of the parsers of byte ranges, of text as well as of records, and their reader."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

from ...core.code import value_code
from ...core.cursor import Json
from ...core.operator import Operator, StageView
from ...core.policy import OnError, check_on_error
from ...formats.ranges import RangedFormat
from ...formats.text.chunks import LAST_RECORD_BYTES
from ...storage.file import Stream
from ._byte_ranges import ByteRange, ByteRanges
from ._open_files import FileVersions, OpenTask
from ._parse_units import ParseUnits, Piece, Place, UnitReader

F = TypeVar("F", bound="RangedFormat[Any]")


def call_with_policy(form: RangedFormat[Any], on_error: OnError | None) -> str:
    """The call of a chain function with its options and `on_error`, as code."""
    call = form.call()
    if on_error is None:
        return call
    return f"{call[:-1]}{'' if call.endswith('()') else ', '}on_error={value_code(on_error)})"


@dataclass(frozen=True, eq=False)
class ParseRanges(ParseUnits[ByteRange], Generic[F]):
    """The base: a subclass names its kind, says whether it gives columns, and makes a reader."""

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
    """How many bytes before a range are read to find its first record."""

    def __init__(self) -> None:
        self._versions = FileVersions()

    def is_remote(self, unit: ByteRange) -> bool:
        return not unit.file.is_local()

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
        """The rows of a unit of an open file from `place` on."""
