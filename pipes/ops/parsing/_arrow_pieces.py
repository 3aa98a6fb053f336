"""Rows of Arrow's files and streams in order, a record batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import pyarrow as pa

from ...core.block import Block
from ...core.rows import Rows
from ...engine.readahead import begun_ahead
from ...errors import DataError, FeedpipeError, SourceError
from ...formats.arrow.file import ArrowFile, validated
from ...formats.arrow.ipc import ArrowIpc, ipc_errors, open_stream
from ...formats.tables.arrow import read_error, to_column
from ...storage.file import WHOLE
from ...storage.tasks import Task
from ._arrow_rows import arrow_files
from ._open_files import OpenTask, at_call_site
from ._record_batches import STREAM, RecordBatch

if TYPE_CHECKING:
    from ...engine.stage import Stage
    from ...storage.file import File


_Begun: TypeAlias = OpenTask | Task[ArrowFile]
"""A stream, or the file of a record batch."""


class Piece(NamedTuple):
    """Rows of one record batch.

    Attributes:
        rows: those behind the place where reading begins, at least one.
        number: which batch of the unit that is.
        start: how many of its rows stand before.
        first: the number in the file of the first of these rows.
    """

    rows: Rows
    number: int
    start: int
    first: int


class Pieces:
    """Reads units; keeps the files of the last few open, and closes them in the end."""

    def __init__(self, format: ArrowIpc, stage: Stage, *, threads: bool) -> None:
        self._format = format
        self._stage = stage
        self._threads = threads
        self._files = arrow_files(format)

    def __enter__(self) -> Pieces:
        return self

    def __exit__(self, *error: object) -> None:
        self._files.close()

    def begun(
        self, blocks: Iterator[Block]
    ) -> AbstractContextManager[Iterator[tuple[tuple[Block, int, RecordBatch], _Begun]]]:
        """The units in blocks, each with its block and its place there; files that lie far are opened ahead."""
        units = ((block, index, cast("RecordBatch", unit)) for block in blocks for index, unit in enumerate(block.rows))
        return begun_ahead(units, self._begin, lambda item: self._threads and not item[2].file.is_local())

    def of(self, unit: RecordBatch, opened: _Begun, number: int, start: int) -> Iterator[Piece]:
        """The rows of a unit behind the first `start` of its batch `number`."""
        try:
            if isinstance(opened, OpenTask):
                yield from self._of_stream(unit.file, opened, number, start)
                return
            batch = opened.result().read_batch(unit.number, unit.rows, unit.compressed)
            yield Piece(self._rows(unit.file, batch.slice(start), unit.first + start), 0, start, unit.first + start)
        except (SourceError, DataError) as error:
            raise at_call_site(error, self._stage) from error

    def _begin(self, item: tuple[Block, int, RecordBatch], ahead: bool) -> _Begun:
        unit = item[2]
        return OpenTask(unit.file, WHOLE if ahead else None) if unit.number == STREAM else self._files.task(unit)

    def _of_stream(self, file: File, opened: OpenTask, begin: int, start: int) -> Iterator[Piece]:
        first = number = 0
        with opened.result() as stream:
            try:
                reader = open_stream(stream)
                for number, batch in enumerate(reader):
                    count = batch.num_rows
                    if number >= begin and count > start:
                        inside = self._format.require_fixed_schema(file.name).file_types
                        chosen = validated(batch.select([name for name in inside if name in batch.schema.names]))
                        yield Piece(self._rows(file, chosen.slice(start), first + start), number, start, first + start)
                    if number >= begin:
                        start = 0
                    first += count
            except FeedpipeError:
                raise
            except ipc_errors() as error:
                raise read_error(error, f"{file.name}, record batch {number + 1 if first else 0},") from error

    def _rows(self, file: File, batch: pa.RecordBatch, first: int) -> Rows:
        """Rows of a batch of the file, the first of which has the number `first` there."""
        fixed = self._format.require_fixed_schema(file.name)
        count = batch.num_rows
        made = fixed.cast_batch(batch, file.name)
        columns = {name: to_column(made.column(place)) for place, name in enumerate(made.schema.names)}
        for name, value in fixed.constants(file.path, columns).items():
            columns[name] = pa.repeat(value, count)
        chosen = {name: columns[name] for name in fixed.names}
        return Rows({**chosen, **self._format.lineage.columns_for(file.path, range(first, first + count))}, count)
