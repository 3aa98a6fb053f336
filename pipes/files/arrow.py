"""`parse_arrow`: the rows of Arrow's files and streams, in order or by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import BlockSize
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator, Order, StageView
from ..core.process import PerProcess
from ..core.rows import BlockRows, Column, Indices, Row, Rows, index_array
from ..errors import DataError, Origin, SourceError
from .arrow_batches import RecordBatch, RecordBatches, RecordBatchReader
from .arrow_ipc import ArrowIpc
from .open_files import at_call_site, check_fixed_order, has_fixed_order
from .records import extra_columns
from .units import ParseCounted

if TYPE_CHECKING:
    import pyarrow as pa

    from ..pipe import Pipe
    from ..storage.file import File
    from .arrow_rows import ArrowRows


def parse_arrow(
    pipe: Pipe[File],
    /,
    *,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    indexed: bool = False,
) -> Pipe[Row]:
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
    it is read: the system then ends the process. A batch is checked when it is first used, which reads its text once.
    Of a remote file only the columns and batches needed are fetched. A stream that ends between two batches is accepted
    as complete, as the format allows. Files compressed as a whole, as in `.arrow.gz`, are read as streams.

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
    options = ArrowIpc(
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        indexed=bool(indexed),
    )
    if indexed:
        check_fixed_order(pipe, "parse_arrow")
    parser = IndexedArrow(options) if indexed else ParseArrow(options)
    return pipe.then(RecordBatches(options, has_fixed_order(pipe))).then(parser)


@dataclass(frozen=True, eq=False)
class ParseArrow(ParseCounted[ArrowIpc, RecordBatch]):
    kind: ClassVar[str] = "parse_arrow"

    def reader(self, context: Context, block_size: BlockSize) -> RecordBatchReader:
        return RecordBatchReader(self.format, context)


# `parse_arrow(indexed=True)`: rows by their position among all record batches.


Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IndexedArrow(Operator):
    kind: ClassVar[str] = "parse_arrow"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.MAKES

    format: ArrowIpc = field(repr=False)
    bounds: Positions | None = field(default=None, repr=False)
    """The position of the first row of each record batch, and the number of all rows."""
    memory: PerProcess[ArrowRows] = field(default_factory=PerProcess, repr=False)

    def call(self) -> str:
        return self.format.call()

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        if self.bounds is not None:
            return self
        batches = cast("RecordBatches", stage.input.op)
        bounds = np.cumsum([0, *batches.resolved_table.column("rows")], dtype=np.int64)
        # A new memory: open files belong to these record batches, and other batches may be found next time.
        return replace(self, format=batches.format, bounds=bounds, memory=PerProcess())

    def length(self, stage: StageView) -> int:
        return int(self._bounds()[-1])

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        owner = int(np.searchsorted(self._bounds(), index, "right")) - 1
        (handle,) = _handles(stage, range(owner, owner + 1))
        return Origin(handle.file.path, handle.first + index - int(self._bounds()[owner]) + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        fixed = self.format.fixed_schema
        if fixed is None:  # there is no file
            return Rows({}, 0)
        try:
            rows = self._arrow_rows(stage).rows(indices)
            if not fixed.folder_types and self.format.lineage == (None, None):
                return rows
            columns = {**rows.columns, **self._extra_columns(stage, index_array(indices))}
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        names = [*fixed.names, *(name for name in self.format.lineage if name is not None)]
        return Rows({name: columns[name] for name in names}, len(rows))

    def _extra_columns(self, stage: StageView, indices: Positions) -> dict[str, Column]:
        """The columns of folders, and those with the path and the number of each row."""
        owners = np.searchsorted(self._bounds(), indices, "right") - 1
        numbers, places = np.unique(owners, return_inverse=True)
        handles = _handles(stage, numbers) if len(numbers) else []
        firsts = np.array([handle.first for handle in handles], np.int64)[places]
        rows = firsts + indices - self._bounds()[owners]
        return extra_columns(self.format, [handle.file.path for handle in handles], places, rows)

    def _arrow_rows(self, stage: StageView) -> ArrowRows:
        def make() -> ArrowRows:
            from .arrow_rows import ArrowRows

            lengths = np.diff(self._bounds()).tolist()
            return ArrowRows(self.format, lengths, lambda numbers: _handles(stage, numbers))

        return self.memory.get(make)

    def _bounds(self) -> Positions:
        assert self.bounds is not None, "a run begins with `resolve`"
        return self.bounds


def _handles(stage: StageView, numbers: Indices) -> list[RecordBatch]:
    return cast("list[RecordBatch]", stage.input.rows(numbers, Context()))
