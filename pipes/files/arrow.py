"""`parse_arrow`: the rows of Arrow's files and streams, in order or by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias, Unpack, cast

import numpy as np

from ..core.block import BlockSize
from ..core.context import Context
from ..core.lazy import pa
from ..core.rows import Row
from ..errors import DataError, FeedpipeError, Origin
from ..formats.columns import read_error
from ..formats.table_format import TableOptions, options_of
from ..storage.file import WHOLE, File, Stream
from ..storage.file_units import UNKNOWN, FileContents
from ..storage.mapping import local_path, map_file
from ..storage.tasks import Task
from .arrow_ipc import ArrowFooter, ArrowHead, ipc_errors, open_stream, read_arrow_head
from .by_position import IndexedFormat, ParseByPosition, RowTable, UnitsAt
from .footers import CountedFormat, FileUnit, OpenFileCache
from .open_files import OpenTask, check_fixed_order
from .units import InputFiles, Place, Section, UnitReader, Units, parse, row_origins

if TYPE_CHECKING:
    from ..pipe import Pipe
    from .arrow_file import ArrowFile, ArrowRows


class ArrowOptions(TableOptions, total=False):
    """The options of `parse_arrow`."""

    indexed: bool


def parse_arrow(pipe: Pipe[File], /, **options: Unpack[ArrowOptions]) -> Pipe[Row]:
    """Give the rows of each file or stream in Arrow's IPC formats, Feather version 2 included, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Order: that of
    the files, and within each that of its rows. Length: known if there are no streams and files come in a fixed order;
    streamed, or with `indexed=True` indexed. State: a record batch and a place in it. A resume seeks to it, or reads a
    stream up to it.

    Shards divide the record batches of files, and whole streams. The footers of files, and the heads of their record
    batches, are read once per pipe, in threads; with a manifest, once for all runs. Names and types are those of the
    first file, by the rules of `parse_parquet`, also for folders named as in `year=2024` and with `unify_schemas=True`;
    dictionaries, run ends and views of text are read as their values.

    Local files are mapped into memory, and nothing is copied before rows are gathered. Do not shorten such a file while
    it is read. The next batch finds that and raises a `SourceError`, but rows in hand and columns that are read in
    place change or, as the system decides, end the process; of a worker, the next one raises a `SourceError`. A batch
    is checked when it is first used, which reads its text once. Of a remote file only the columns and batches needed
    are fetched. A stream that ends between two batches is accepted as complete, as the format allows. Files compressed
    as a whole, as in `.arrow.gz`, are read as streams.

    Args:
        columns: reads only these columns, in this order.
        path_column: the name of an added column with the path of the file.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files together; a file that lacks one has nulls there.
        indexed: makes `len`, `pipe[i]` and a full `shuffle()` work. There must be no streams, and files must come in a
            fixed order. Number columns without nulls are then read in place if files are mapped and their buffers are
            not compressed. Each process keeps up to 256 MiB of batches that it decompressed or fetched; if all batches
            take more, `shuffle(window=...)` reads each of them fewer times than `shuffle()`.

    Raises:
        ArgumentError: `indexed` is given, but files have no positions or come in a new order in each epoch.
        SourceError: a file is missing, cannot be read, or has changed since its footer was read.
        DataError: names file and column of what does not fit: a missing column, columns or types unlike the first
            file's, types that cannot be unified; a file that is not Arrow, or is damaged or cut short. The rows before
            the error come first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.feather
        >>> pa.feather.write_feather(pa.table({"id": [1, 2, 3], "said": ["well", "yes", None]}), "a.arrow")
        >>> list(fp.list_files("a.arrow").open_files().parse_arrow(columns=["said"], row_column="row"))
        [{'said': 'well', 'row': 0}, {'said': 'yes', 'row': 1}, {'said': None, 'row': 2}]
    """
    form = ArrowIpc(**options)
    if form.indexed:
        check_fixed_order(pipe, "parse_arrow")
        return pipe.then(Units(form, has_fixed_order=True)).then(ParseByPosition(form))
    return parse(pipe, form)


@options_of(parse_arrow, ArrowOptions)
@dataclass(frozen=True, eq=False, kw_only=True)
class ArrowIpc(CountedFormat, IndexedFormat):
    """The arguments of `parse_arrow`. A unit is a record batch, or a stream."""

    units: ClassVar[str] = "record_batches"
    fields: ClassVar[tuple[str, ...]] = ("file", "number", "rows", "first", "seal", "compressed")
    if_indexed: ClassVar[str] = "if no file is a stream"

    indexed: bool = False

    def head_of(self, file: File) -> ArrowHead:
        with file.open() as stream:
            return read_arrow_head(stream, file.path)

    def footer(self, file: File) -> FileContents:
        with file.open() as stream:
            return _contents(read_arrow_head(stream, file.path), stream)

    def contents(self, file: File) -> FileContents:
        with file.open() as stream:
            head = read_arrow_head(stream, file.path)
            fixed = self.require_fixed_schema(file.path)
            fixed.constants(file.path, fixed.columns_in(head))
            if self.indexed and not isinstance(head, ArrowFooter):
                raise DataError(
                    f"{file.name} is a stream or is compressed as a whole, so its rows have no positions; "
                    "`list_files(...).open_files().parse_arrow()` reads it in order"
                )
            return _contents(head, stream)

    def can_use(self, schemas: Sequence[pa.Schema], *, knows_rows: bool) -> bool:
        return knows_rows or not self.indexed  # streams are refused by their footers

    def open(self, batch: FileUnit) -> ArrowFile:
        """Open the file of a record batch. Local ones are mapped into memory."""
        from .arrow_file import ArrowFile

        file = batch.file
        fixed, path = self.require_fixed_schema(file.name), local_path(file)
        if path is None:
            return ArrowFile(file, fixed, batch.seal, None)
        file.open(None).close()  # it is there, and has the size that was listed
        return ArrowFile(file, fixed, batch.seal, map_file(path, file.name))

    def reader(self, context: Context, block_size: BlockSize) -> _RecordBatchReader:
        return _RecordBatchReader(self)

    def with_table(self, files: InputFiles) -> tuple[ArrowIpc, RowTable]:
        batches = cast("Units", files.source)
        table = batches.resolved_table
        firsts = np.append(0, np.cumsum(table.column("rows"), dtype=np.int64))
        return cast("ArrowIpc", batches.format), RowTable(firsts)

    def row_reader(self, table: RowTable, units: UnitsAt) -> ArrowRows:
        from .arrow_file import ArrowRows

        return ArrowRows(self, table, units, OpenFileCache(self.open, lambda file: file.close()))

    def origin(self, unit: FileUnit, number: int, begin: int) -> Origin:
        return Origin(unit.file.path, unit.first + number + 1)


_Opened: TypeAlias = "OpenTask | Task[ArrowFile]"
"""A stream, or the file of a record batch."""


class _RecordBatchReader(UnitReader[FileUnit, _Opened]):
    """Reads record batches and streams.

    A place is [number of the batch in the stream, rows of the batch before it]; the number is 0 for a batch of a file.
    A resume seeks to the batch of a file; it reads a stream up to there.
    """

    beginning: ClassVar[Place] = (0, 0)

    def __init__(self, form: ArrowIpc) -> None:
        self._files = OpenFileCache(form.open, lambda file: file.close())
        self._form = form

    def begin(self, unit: FileUnit, early: bool) -> _Opened:
        return OpenTask(unit.file, WHOLE if early else None) if unit.rows == UNKNOWN else self._files.task(unit)

    def sections(self, unit: FileUnit, opened: _Opened, place: Place) -> Iterator[Section]:
        number, before = place
        if isinstance(opened, OpenTask):
            yield from self._of_stream(unit.file, opened, number, before)
            return
        batch = opened.result().read_batch(unit.number, unit.rows, unit.compressed)
        yield self._section(unit.file, batch.slice(before), unit.first + before, (0, before), None)

    def _of_stream(self, file: File, opened: OpenTask, begin: int, before: int) -> Iterator[Section]:
        """Read the rows of a stream after the first `before` of batch `begin`."""
        from .arrow_file import validated

        first = number = 0
        with opened.result() as stream:
            try:
                for number, batch in enumerate(open_stream(stream)):
                    count = batch.num_rows
                    if number >= begin and count > before:
                        types = self._form.require_fixed_schema(file.name).file_types
                        selected = validated(batch.select([name for name in types if name in batch.schema.names]))
                        at, end = (number, before), (number + 1, 0)
                        yield self._section(file, selected.slice(before), first + before, at, end)
                    if number >= begin:
                        before = 0
                    first += count
            except FeedpipeError:
                raise
            except ipc_errors() as error:
                raise read_error(error, f"{file.name}, record batch {number + 1 if first else 0},") from error

    def _section(self, file: File, batch: pa.RecordBatch, first: int, at: Place, end: Place | None) -> Section:
        """The rows of a batch; `first` is the number of the first one in the file."""
        numbers = range(first, first + batch.num_rows)
        rows = self._form.to_rows(batch, file.path, numbers)
        return Section(rows, at, end, partial(row_origins, file.path, numbers))

    def close(self) -> None:
        self._files.close()


def _contents(head: ArrowHead, stream: Stream) -> FileContents:
    if not isinstance(head, ArrowFooter):
        return FileContents(head.schema, 0, [UNKNOWN], [False])
    batches = head.batch_heads(stream)
    rows, compressed = [batch.rows for batch in batches], [batch.compressed for batch in batches]
    return FileContents(head.schema, head.seal, rows, compressed)
