"""`parse_tfrecord(indexed=True)`: records by their position in all files, by the indexes beside these."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...core.cursor import Json
from ...core.operator import Columns, Operator, StageView
from ...core.per_process import PerProcess
from ...core.rows import BlockRows, Rows, concat
from ...errors import ArgumentError, DataError, MissingError, Origin
from ...formats.tables.heads import TableHead
from ...formats.tfrecord.index import index_paths, is_index, read_bounds
from ...formats.tfrecord.options import TfRecord, record_error
from ...formats.tfrecord.records import HEAD_BYTES, TAIL_BYTES, right_records
from ...storage.file import File
from ...storage.filesystem import split_options
from ...storage.tasks import in_threads, in_turn
from ._extra_columns import extra_columns
from ._indexed_records import IndexedRecords, ParsedRecords, RecordBytes
from ._parse_ranges import call_with_policy
from ._record_table import Numbers, RecordTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class IndexedTfRecords(IndexedRecords):
    kind: ClassVar[str] = "parse_tfrecord"
    columns: ClassVar[Columns] = Columns.MAKES

    format: TfRecord = field(repr=False)

    def call(self) -> str:
        return call_with_policy(self.format, self.on_error)

    def identity(self) -> Json:
        digest = None if self.table is None else self.table.digest()
        return {**self.format.identity(), "records": digest}

    def with_table(self, stage: StageView) -> Operator:
        table = RecordTable.of(in_threads(_read_index, self.input_files(stage)))
        heads = (in_threads if self.format.unify_schemas else in_turn)(self._head, self.input_files(stage))
        form = self.format.fix(heads, (file.path for file in self.input_files(stage)))
        return replace(self, format=form, table=table, source=PerProcess())

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()

    def origin_of(self, file: File, number: int, begin: int) -> Origin:
        return Origin(file.path, begin, "byte")

    def parse(self, records: RecordBytes) -> ParsedRecords:
        if self.format.fixed_schema is None:  # there is no record
            return ParsedRecords(Rows({}, 0), [], {})
        data, starts, ends, places, _ = records

        def error_at(place: int, problem: str) -> DataError:
            return record_error(records.file(place).name, int(places.begins[place]), problem)

        right_heads, right_data = right_records(data, starts, ends)
        for place in np.flatnonzero(~right_heads).tolist()[:1]:
            raise error_at(place, "its length is not that of the index, or is damaged; make the index anew")
        problems = dict.fromkeys(np.flatnonzero(~right_data).tolist(), "its data have a wrong checksum")
        parsed: list[BlockRows] = []
        sound: list[int] = []
        spans = [np.flatnonzero(right_data)]
        while spans:
            span = spans.pop()
            try:
                columns = self.format.parse_columns(data, starts[span] + HEAD_BYTES, ends[span] - TAIL_BYTES)
            except ValueError as error:
                if len(span) > 1:
                    spans += reversed(np.array_split(span, 2))
                else:
                    problems[int(span[0])] = str(error)
            else:
                parsed.append(Rows(columns, len(span)))
                sound += span.tolist()
        rows = self._with_extra_columns(concat(parsed), records, sound)
        malformed = {
            place: self.malformed(
                records,
                place,
                error_at(place, problem),
                data[starts[place] + HEAD_BYTES : ends[place] - TAIL_BYTES],
            )
            for place, problem in problems.items()
        }
        return ParsedRecords(rows, sound, malformed)

    def _with_extra_columns(self, rows: BlockRows, records: RecordBytes, sound: list[int]) -> BlockRows:
        fixed = self.format.require_fixed_schema("")
        if not isinstance(rows, Rows) or (not fixed.folder_types and self.format.lineage == (None, None)):
            return rows
        paths, places = [file.path for file in records.files], records.places
        extra = extra_columns(self.format, paths, places.owners[sound], places.numbers[sound])
        columns = {**rows.columns, **extra}
        names = [*fixed.names, *(name for name in self.format.lineage if name is not None)]
        return Rows({name: columns[name] for name in names}, len(rows))

    def _head(self, file: File) -> TableHead | None:
        with file.open() as stream:
            return self.format.head(stream, file.path)


def _read_index(file: File) -> Numbers:
    """The byte at which each record of a file begins, and that behind the last one.

    Raises:
        ArgumentError: the file is compressed, or there is no index beside it.
        DataError: the index belongs to another file.
    """
    if is_index(file.path):
        return np.zeros(1, np.int64)  # it has no records
    if file.is_compressed():
        raise ArgumentError(f"`indexed` must be left out here: {file.name} is compressed, so no record can be sought")
    path, options = (file.path, "") if file.filesystem is not None else split_options(file.path)
    candidates = index_paths(path)
    for candidate in candidates:
        index = File(candidate + options, filesystem=file.filesystem, compression=None, cache=file.cache)
        try:
            with index.open() as stream:
                data = stream.read()
        except MissingError:
            continue
        return read_bounds(data, index.name, file.size() if file.listed is None else file.listed)
    raise ArgumentError(
        f"`indexed` needs an index beside {file.name}, and there is neither {candidates[0]} nor {candidates[1]}; "
        "`write_tfrecord(index=True)` writes one, and so do DALI's `tfrecord2idx` and the package `tfrecord`"
    )
