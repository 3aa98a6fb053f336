"""`parse_tfrecord(indexed=True)`: records by their position in all files, by the indexes beside these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...core.context import Context
from ...core.cursor import START, Json
from ...core.operator import Columns, Operator, Order, StageView
from ...core.per_process import PerProcess
from ...core.policy import OnError, check_on_error
from ...core.rows import BlockRows, Indices, Rows, concat, index_array, take
from ...core.skipped import Skipped
from ...core.skipped_rows import Parted
from ...errors import ArgumentError, DataError, Origin, SourceError
from ...formats.ranges import MAX_CONTENT_BYTES
from ...formats.tables.heads import TableHead
from ...formats.tfrecord.options import TfRecord, record_error
from ...formats.tfrecord.records import HEAD_BYTES, TAIL_BYTES, right_records
from ...storage.file import File
from ...storage.tasks import in_threads, in_turn
from ._extra_columns import extra_columns
from ._open_files import at_call_site, check_file
from ._parse_ranges import call_with_policy
from ._record_table import Numbers, RecordPlaces, RecordSource, RecordTable, read_index

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class IndexedRecords(Operator):
    kind: ClassVar[str] = "parse_tfrecord"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.MAKES

    format: TfRecord = field(repr=False)
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)
    table: RecordTable | None = field(default=None, repr=False, kw_only=True)
    """None before `resolve`."""
    source: PerProcess[RecordSource] = field(default_factory=PerProcess, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def call(self) -> str:
        return call_with_policy(self.format, self.on_error)

    def identity(self) -> Json:
        digest = None if self.table is None else self.table.digest()
        return {**self.format.identity(), "records": digest}

    def resolve(self, stage: StageView) -> Operator:
        if self.table is not None:
            return self
        try:
            table = RecordTable.of(in_threads(read_index, self._files(stage)))
            heads = (in_threads if self.format.unify_schemas else in_turn)(self._head, self._files(stage))
            form = self.format.fix(heads, (file.path for file in self._files(stage)))
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error
        return replace(self, format=form, table=table, source=PerProcess())

    def length(self, stage: StageView) -> int:
        return len(self._table)

    def weights(self, stage: StageView, context: Context) -> None:
        return None

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        places = self._table.at(np.array([index]))
        (file,) = self._files_at(stage, places.files)
        return Origin(file.path, int(places.begins[0]), "byte")

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if self.format.fixed_schema is None:  # there is no record
            return Rows({}, 0)
        positions, order = np.unique(index_array(indices), return_inverse=True)
        places = self._table.at(positions)
        files = self._files_at(stage, places.files)
        try:
            data, starts = self.source.get(RecordSource).read(files, places)
            rows = self._parse(stage, data, starts, positions, places, files, context)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error
        return rows if isinstance(indices, range) and indices.step > 0 else take(rows, order)

    def _parse(
        self,
        stage: StageView,
        data: bytes,
        starts: Numbers,
        positions: Numbers,
        places: RecordPlaces,
        files: list[File],
        context: Context,
    ) -> BlockRows:
        """The rows of records at some positions, whose bytes begin at these places of `data`."""
        ends = starts + (places.ends - places.begins)

        def error_at(place: int, problem: str) -> DataError:
            return record_error(files[places.owners[place]].name, int(places.begins[place]), problem)

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
        rows = self._with_extra_columns(concat(parsed), files, places, sound)
        if not problems:
            return rows
        skipped: dict[int, Skipped] = {}
        for place, problem in sorted(problems.items()):
            malformed = error_at(place, problem)
            content = data[starts[place] + HEAD_BYTES : ends[place] - TAIL_BYTES][:MAX_CONTENT_BYTES]
            origin = Origin(files[places.owners[place]].path, int(places.begins[place]), "byte")
            mark = stage.skip(malformed, int(positions[place]), content, context, origin)
            if mark is None:
                raise malformed
            skipped[place] = mark
        return Parted(rows, sound, skipped, len(positions)).merged(rows)

    def _with_extra_columns(
        self, rows: BlockRows, files: list[File], places: RecordPlaces, sound: list[int]
    ) -> BlockRows:
        fixed = self.format.require_fixed_schema("")
        if not isinstance(rows, Rows) or (not fixed.folder_types and self.format.lineage == (None, None)):
            return rows
        paths = [file.path for file in files]
        extra = extra_columns(self.format, paths, places.owners[sound], places.numbers[sound])
        columns = {**rows.columns, **extra}
        names = [*fixed.names, *(name for name in self.format.lineage if name is not None)]
        return Rows({name: columns[name] for name in names}, len(rows))

    @property
    def _table(self) -> RecordTable:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table

    def _head(self, file: File) -> TableHead | None:
        with file.open() as stream:
            return self.format.head(stream, file.path)

    def _files(self, stage: StageView) -> Iterator[File]:
        for block in stage.input.blocks(START, Context()):
            for value in block.rows:
                yield check_file(stage, self.kind, value)

    def _files_at(self, stage: StageView, numbers: Numbers) -> list[File]:
        values = stage.input.rows(numbers, Context()) if len(numbers) else []
        return [check_file(stage, self.kind, value) for value in values]
