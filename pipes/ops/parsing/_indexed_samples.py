"""`parse_mds(indexed=True)`: samples by their position in all shards, by the heads of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ...core.code import value_code
from ...core.cursor import Json
from ...core.operator import Columns, Operator, StageView
from ...core.per_process import PerProcess
from ...errors import ArgumentError, DataError, Origin, SourceError, redacted
from ...formats.mds import MdsHead, MdsParser, read_mds_head, sample_error
from ...storage.file import File, Stream
from ...storage.tasks import in_threads
from ._indexed_records import IndexedRecords, ParsedRecords, RecordBytes
from ._parse_units import Malformed
from ._record_table import Numbers, RecordSource, RecordTable


def _none() -> Numbers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class IndexedSamples(IndexedRecords):
    kind: ClassVar[str] = "parse_mds"
    columns: ClassVar[Columns] = Columns.LOSES

    path_column: str | None = None
    descriptions: Sequence[bytes] = field(default=(), repr=False)
    """Those of the columns of all files, each once."""
    description_numbers: Numbers = field(default_factory=_none, repr=False)
    """Which of these each file has."""
    seals: Numbers = field(default_factory=_none, repr=False)
    """That of the head of each file."""
    parsers: PerProcess[list[MdsParser]] = field(default_factory=PerProcess, repr=False)
    """One for each description."""

    def call(self) -> str:
        arguments = {"path_column": self.path_column, "indexed": True, "on_error": self.on_error}
        code = (f"{name}={value_code(value)}" for name, value in arguments.items() if value is not None)
        return f"parse_mds({', '.join(code)})"

    def identity(self) -> Json:
        return {"samples": None if self.table is None else self.table.digest()}

    def with_table(self, stage: StageView) -> Operator:
        descriptions: dict[bytes, int] = {}
        numbers, seals, offsets = list[int](), list[int](), list[Numbers]()
        for name, head in in_threads(_read_head, self.input_files(stage)):
            if head.description not in descriptions:
                MdsParser(head.description, name, self._extra_keys())  # raises an error that names the file
            numbers.append(descriptions.setdefault(head.description, len(descriptions)))
            seals.append(head.seal)
            offsets.append(head.offsets)
        return replace(
            self,
            table=RecordTable.of(offsets),
            descriptions=tuple(descriptions),
            description_numbers=np.array(numbers, np.int64),
            seals=np.array(seals, np.int64),
            source=PerProcess(),
            parsers=PerProcess(),
        )

    def open_source(self) -> RecordSource:
        return RecordSource(self._check_head)

    def origin_of(self, file: File, number: int, begin: int) -> Origin:
        return Origin(file.path, number + 1)

    def parse(self, records: RecordBytes) -> ParsedRecords:
        parsers = self.parsers.get(self._make_parsers)
        numbers = self.description_numbers[records.places.files]
        paths = [{key: redacted(file.path) for key in self._extra_keys()} for file in records.files]
        rows, sound, malformed = list[object](), list[int](), dict[int, Malformed]()
        owners, starts, ends = (column.tolist() for column in (records.places.owners, records.starts, records.ends))
        for place, (owner, start, end) in enumerate(zip(owners, starts, ends, strict=True)):
            sample = records.data[start:end]
            try:
                rows.append(parsers[numbers[owner]].row(sample, paths[owner]))
                sound.append(place)
            except ValueError as error:
                number = int(records.places.numbers[place])
                problem = sample_error(records.files[owner].name, number, str(error))
                malformed[place] = self.malformed(records, place, problem, sample)
        return ParsedRecords(rows, sound, malformed)

    def _extra_keys(self) -> list[str]:
        return [] if self.path_column is None else [self.path_column]

    def _make_parsers(self) -> list[MdsParser]:
        return [MdsParser(description, "a shard", self._extra_keys()) for description in self.descriptions]

    def _check_head(self, number: int, file: File, stream: Stream) -> None:
        if read_mds_head(stream, file.name).seal != self.seals[number]:
            raise SourceError(
                f"{file.name} has changed since its head was read; a pipe reads heads once, so make it anew"
            )


def _read_head(file: File) -> tuple[str, MdsHead]:
    """The name of a shard, and its head.

    Raises:
        ArgumentError: the file is compressed.
        DataError: it is no shard, or is cut short.
    """
    if file.is_compressed():
        raise ArgumentError(f"`indexed` must be left out here: {file.name} is compressed, so no sample can be sought")
    with file.open() as stream:
        head = read_mds_head(stream, file.name)
    size, end = file.size() if file.listed is None else file.listed, int(head.offsets[-1])
    if size < end:
        raise DataError(f"{file.name} is cut short: it has {size} bytes, and its samples end at byte {end}")
    return file.name, head
