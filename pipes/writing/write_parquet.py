"""`write_parquet`: the rows of a pipe as Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ..core.checks import check_choice, check_int
from ..errors import DataError
from ..formats.tables.columns import Schema, check_schema
from ..pipe import Pipe
from ._columns import Columns
from ._shards import Limits, Run, Shard, Shards

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Compression: TypeAlias = Literal["zstd", "snappy", "gzip", "lz4", "brotli"] | None

_CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", None)
_CHUNK = 256  # rows that become columns, or cross from a worker, at a time
_GROUP = 2**26  # bytes of memory that a row group takes at most, about


def write_parquet(
    pipe: Pipe[Mapping[str, object]],
    folder: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    file_size: int | str | None = None,
    row_group_rows: int = 100_000,
    compression: Compression = "zstd",
    schema: Schema | None = None,
    filesystem: object = None,
    workers: int = 0,
    progress: bool = True,
    overwrite: bool = False,
) -> str:
    """Write the rows of a pipe into Parquet files `part-00000.parquet` and so on, and give the path of their manifest.

    Element: a dict; the first 256 rows fix the columns and, but for `schema`, their types. A table stays columns from
    the file it comes from. Arrays and tensors of one shape become a column of such tensors, those of one axis and many
    lengths a column of lists; lists, dicts, bytes, dates and None are what they are in Arrow. Order: that of
    `Loader(pipe, workers=workers)` in epoch 0 with seed 0, the same in each run; it is the pipe's own, unless the pipe
    is streamed and read by several workers. Memory: a row group.

    A file has its name only when it is whole. `_manifest.jsonl` comes last, with the rows, bytes and checksum of each
    file: where it is, all of them are. See `verify`, and `manifest=` of the readers. A run that fails or is killed
    leaves the files it has finished, and no half one. Of a pipe without rows one file is written, with the columns that
    `schema` names and no row.

    Args:
        pipe: gives the rows.
        folder: a path or URL; it must be empty or not there, see `overwrite`.
        rows_per_file: rows of each file but the last.
        file_size: in place of that, bytes after which a file is full, such as "1GiB"; it ends with the row group that
            gets there. By default 256 MiB.
        row_group_rows: the most rows of a row group, the unit in which readers share the work; it takes 64 MiB of
            memory at the most.
        compression: "zstd", "snappy", "gzip", "lz4", "brotli" or None.
        schema: types by name, as Arrow types or their names, or a pyarrow schema; the types of other columns are those
            of the first rows.
        filesystem: a pyarrow or fsspec file system that `folder` is on; else it is a local path or a URL.
        workers: processes that run the pipe; this one writes.
        progress: on a terminal, shows rows, files and bytes.
        overwrite: removes the files of an earlier run in `folder`; never those of others, nor files that the pipe has
            from `list_files`.

    Raises:
        ArgumentError: the folder is not empty.
        DataError: a row is no dict, has other columns than the first, or a value of another type; it names row and
            column. The pipe gives no row, and there is no `schema`.
        SourceError: a file cannot be written.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(5)).map(lambda i: {"id": i, "square": i * i})
        >>> fp.write_parquet(pipe, "squares", rows_per_file=3)
        'squares/_manifest.jsonl'
        >>> list(fp.list_files("squares")), fp.read_parquet("squares").head(2)
        (['squares/part-00000.parquet', 'squares/part-00001.parquet'], [{'id': 0, 'square': 0}, {'id': 1, 'square': 1}])
    """
    limits = Limits(rows_per_file, file_size)
    check_int("row_group_rows", row_group_rows, least=1)
    check_choice("compression", compression, _CODECS)
    columns = Columns(check_schema(schema))
    run = Run(pipe, _CHUNK, workers)
    with Shards(
        run, folder, "write_parquet", "parquet", filesystem=filesystem, progress=progress, overwrite=overwrite
    ) as files:
        batches = map(columns.batch, run)
        groups = _row_groups(batches, row_group_rows, min(_GROUP, limits.bytes or _GROUP), limits.rows)
        for first in groups:
            with files.file() as shard:
                _fill(shard, first, groups, limits, compression)
        if not columns.rows:
            with files.file() as shard:
                _writer(shard, columns.given(), compression).close()
        return files.finish()


def _writer(shard: Shard, schema: pa.Schema, codec: Compression) -> pq.ParquetWriter:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetWriter(cast("Any", shard), schema, compression=cast("Any", codec or "none"))
    except pa.ArrowException as error:
        raise DataError(f"Parquet has no place for such columns: {error}") from error


def _fill(shard: Shard, group: pa.Table, groups: Iterator[pa.Table], limits: Limits, codec: Compression) -> None:
    """Writes row groups until the file is full."""
    with _writer(shard, group.schema, codec) as writer:
        while True:
            writer.write_table(group, row_group_size=len(group))
            shard.wrote(len(group))
            if shard.rows == limits.rows or (limits.bytes is not None and shard.bytes >= limits.bytes):
                return
            following = next(groups, None)
            if following is None:
                return
            group = following


def _row_groups(
    batches: Iterable[pa.RecordBatch], most: int, most_bytes: int, rows_per_file: int | None
) -> Iterator[pa.Table]:
    """The rows in groups; none crosses the end of a file."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size = 0
    left = rows_per_file  # of the file
    for whole in batches:
        batch = whole
        while len(batch):
            room = most - rows if left is None else min(most, left) - rows
            part = batch[:room]
            batch = batch[room:]
            held.append(part)
            rows += len(part)
            size += part.nbytes
            if len(part) == room or size >= most_bytes:
                yield pa.Table.from_batches(held)
                if left is not None:
                    left = left - rows or rows_per_file
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)
