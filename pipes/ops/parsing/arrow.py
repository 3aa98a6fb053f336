"""`parse_arrow`: the rows of Arrow's files and streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.rows import Row
from ...formats.arrow.ipc import ArrowIpc
from ._counted_units import ParseCounted
from ._indexed_arrow import IndexedArrow
from ._open_files import check_fixed_order, has_fixed_order
from ._record_batches import RecordBatch, RecordBatches, RecordBatchReader

if TYPE_CHECKING:
    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseArrow(ParseCounted[ArrowIpc, RecordBatch]):
    kind: ClassVar[str] = "parse_arrow"

    def reader(self, context: Context, block_size: BlockSize) -> RecordBatchReader:
        return RecordBatchReader(self.format, context)


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
