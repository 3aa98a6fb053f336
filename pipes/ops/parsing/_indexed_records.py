"""`IndexedRecords`: the base of parsers that give records by their position in all files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from ...core.context import Context
from ...core.cursor import START
from ...core.operator import Operator, Order, StageView
from ...core.per_process import PerProcess
from ...core.policy import OnError, check_on_error
from ...core.rows import BlockRows, Indices, index_array, take
from ...core.skipped import Skipped
from ...core.skipped_rows import Parted
from ...errors import ArgumentError, DataError, Origin, SourceError
from ...formats.ranges import MAX_CONTENT_BYTES
from ...storage.file import File
from ._open_files import at_call_site, check_file
from ._parse_units import Malformed
from ._record_table import Numbers, RecordPlaces, RecordSource, RecordTable


class RecordBytes(NamedTuple):
    """Records that were read and not parsed yet.

    Attributes:
        data: the bytes that hold them.
        starts, ends: where in these bytes each record begins and ends.
        places: where they are.
        files: those of `places.files`.
    """

    data: bytes
    starts: Numbers
    ends: Numbers
    places: RecordPlaces
    files: list[File]

    def file(self, place: int) -> File:
        """The file of one of the records."""
        return self.files[int(self.places.owners[place])]


class ParsedRecords(NamedTuple):
    """The rows of records.

    Attributes:
        rows: those of the sound records.
        sound: the places of these among all records, in order.
        malformed: what is wrong with each other one, by its place.
    """

    rows: BlockRows
    sound: Sequence[int]
    malformed: Mapping[int, Malformed]


@dataclass(frozen=True, eq=False)
class IndexedRecords(Operator):
    """The base: a subclass finds the records of all files, and parses some of them."""

    order: ClassVar[Order] = Order.ROW_LOCAL

    on_error: OnError | None = field(default=None, kw_only=True, compare=False)
    table: RecordTable | None = field(default=None, repr=False, kw_only=True)
    """None before `resolve`."""
    source: PerProcess[RecordSource] = field(default_factory=PerProcess, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    @abstractmethod
    def with_table(self, stage: StageView) -> Operator:
        """The operator with the table of all records, and with all that the files say about their columns."""

    @abstractmethod
    def parse(self, records: RecordBytes) -> ParsedRecords:
        """The rows of records."""

    @abstractmethod
    def origin_of(self, file: File, number: int, begin: int) -> Origin:
        """The source of the record with this number in a file, which begins at this byte."""

    def open_source(self) -> RecordSource:
        """What reads the records in a process."""
        return RecordSource()

    def resolve(self, stage: StageView) -> Operator:
        if self.table is not None:
            return self
        try:
            return self.with_table(stage)
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self.resolved_table)

    def weights(self, stage: StageView, context: Context) -> None:
        return None

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        places = self.resolved_table.at(np.array([index]))
        (file,) = self._files_at(stage, places.files)
        return self._origin(file, places, 0)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        positions, order = np.unique(index_array(indices), return_inverse=True)
        places = self.resolved_table.at(positions)
        files = self._files_at(stage, places.files)
        try:
            data, starts = self.source.get(self.open_source).read(files, places)
            records = RecordBytes(data, starts, starts + (places.ends - places.begins), places, files)
            rows = self._merge(stage, self.parse(records), records, positions, context)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return rows if isinstance(indices, range) and indices.step > 0 else take(rows, order)

    def _merge(
        self, stage: StageView, parsed: ParsedRecords, records: RecordBytes, positions: Numbers, context: Context
    ) -> BlockRows:
        """The rows, with marks in place of malformed records; an error if these are not skipped."""
        if not parsed.malformed:
            return parsed.rows
        skipped: dict[int, Skipped] = {}
        for place, (error, origin, content) in sorted(parsed.malformed.items()):
            mark = stage.skip(error, int(positions[place]), content, context, origin)
            if mark is None:
                raise error
            skipped[place] = mark
        return Parted(parsed.rows, parsed.sound, skipped, len(positions)).merged(parsed.rows)

    def malformed(self, records: RecordBytes, place: int, error: DataError, content: bytes) -> Malformed:
        """A record that cannot be parsed."""
        return Malformed(error, self._origin(records.file(place), records.places, place), content[:MAX_CONTENT_BYTES])

    def input_files(self, stage: StageView) -> Iterator[File]:
        """All files."""
        for block in stage.input.blocks(START, Context()):
            for value in block.rows:
                yield check_file(stage, self.kind, value)

    @property
    def resolved_table(self) -> RecordTable:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table

    def _origin(self, file: File, places: RecordPlaces, place: int) -> Origin:
        return self.origin_of(file, int(places.numbers[place]), int(places.begins[place]))

    def _files_at(self, stage: StageView, numbers: Numbers) -> list[File]:
        values = stage.input.rows(numbers, Context()) if len(numbers) else []
        return [check_file(stage, self.kind, value) for value in values]
