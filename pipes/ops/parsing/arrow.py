"""`parse_arrow`: the rows of Arrow's files and streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.rows import Row
from ...errors import ArgumentError, with_call_site
from ...formats.arrow.ipc import ArrowIpc
from ._counted_units import ParseCounted
from ._indexed_arrow import IndexedArrow
from ._open_files import has_fixed_order
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
    """Give the rows of each file or stream in Arrow's IPC formats, as a table; of Feather version 2, too.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Order: the
    files' and in each the rows'. Length: known where all are files and come in one order in each run; streamed, or with
    `indexed=True` indexed. State: a record batch and a place in it, which a resume seeks; a stream is read over up to
    there.

    The units that shards are dealt are the record batches of files, and whole streams. The footers of files, and the
    heads of their record batches, are read once for a loader, in threads. Names and types are the first file's, by the
    rules of `parse_parquet`, also for folders named as in `year=2024` and with `unify_schemas=True`; dictionaries, run
    ends and views of text are read as their values.

    Files on this machine are mapped into memory, and nothing is copied before rows are gathered. Such a file must not
    be cut short while it is read: the system then ends the process. Batches are checked when they are first looked at,
    which reads their text once. Of a file elsewhere, ranges are fetched: those of the columns and batches that are
    wanted. A stream that ends between two batches is taken for whole, as the format allows that. Files compressed as a
    whole, as in `.arrow.gz`, are read as streams.

    Args:
        columns: reads only these, in this order.
        path_column: the name of a further column with the path of the file.
        row_column: the name of a further column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files together; a file that lacks one has nulls there.
        indexed: makes `len`, `pipe[i]` and a full `shuffle()` work. All must be files, on a pipe that has them in one
            order in each run. Number columns without nulls are then read in place, where files are mapped and their
            buffers not compressed. Batches that are decompressed or fetched are kept while they take up to 256 MiB in
            each process; where all of them take more, `shuffle(window=...)` reads each fewer times than `shuffle()`.

    Raises:
        ArgumentError: `indexed` where files come in an order drawn anew, or not by position.
        SourceError: a file is missing, cannot be read, or has changed since its footer was read.
        DataError: names file and column of what does not fit: a column that is not there, other columns or types than
            the first file's, types that cannot be unified; bytes that are not Arrow's, are damaged or cut short. The
            rows before come first.

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
    if indexed and not has_fixed_order(pipe):
        raise ArgumentError(
            with_call_site(
                "`indexed` must be left out here: positions of rows need files that have positions, the same in each "
                "run; a `shuffle` can stand behind `parse_arrow` instead"
            )
        )
    parser = IndexedArrow(options) if indexed else ParseArrow(options)
    return pipe.then(RecordBatches(options, has_fixed_order(pipe))).then(parser)
