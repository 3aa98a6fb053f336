"""`write_parquet`: the rows of a pipe as Parquet files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ..core.checks import check_choice, check_int
from ..errors import DataError
from ..formats.tables.columns import Schema, check_names, check_schema
from ..pipe import Pipe
from ._columns import BatchBuilder
from ._dataset_writer import ChunkedRun, DatasetWriter, Limits, OutputFile
from ._table_files import CHUNK_ROWS, write_tables

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Compression: TypeAlias = Literal["zstd", "snappy", "gzip", "lz4", "brotli"] | None

_CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", None)


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
    partition_by: str | Sequence[str] | None = None,
) -> str:
    """Write the rows of a pipe into Parquet files `part-00000.parquet` and so on; returns the path of their manifest.

    Element: a dict. The first 256 rows fix the columns, and the types of those that `schema` does not name. Columns
    that come from a file stay columns. Arrays and tensors of one shape become a column of tensors; arrays of one axis
    and several lengths become a column of lists. Lists, dicts, bytes, dates and None become what Arrow makes of them.
    Order: that of `Loader(pipe, workers=workers)` in epoch 0 with seed 0, the same in each run; it is the pipe's own
    order, unless the pipe is streamed and several workers read it. Memory: one row group.

    A file gets its name when it is complete. `_manifest.jsonl` is written last, with the rows, bytes and checksum of
    each file, so a folder with a manifest has all its files; see `verify`, and `manifest=` of the readers. A run that
    fails or is killed leaves only complete files. For a pipe without rows, one file without rows is written, with the
    columns that `schema` names.

    Args:
        pipe: gives the rows.
        folder: a path or URL; the folder must be empty or missing, unless `overwrite` is true.
        rows_per_file: rows of each file but the last.
        file_size: bytes after which a file is full, such as "1GiB", in place of `rows_per_file`; the file ends with the
            row group that exceeds the size. By default 256 MiB.
        row_group_rows: the maximum number of rows of a row group, the unit by which readers share the work. A row group
            takes at most 64 MiB of memory.
        compression: "zstd", "snappy", "gzip", "lz4", "brotli" or None.
        schema: types by name, as Arrow types or their names, or a pyarrow schema. Other columns have the types of the
            first rows.
        filesystem: a pyarrow or fsspec file system for `folder`; without it, `folder` is a local path or a URL.
        workers: the number of processes that run the pipe; this process writes.
        progress: on a terminal, shows rows, files and bytes.
        overwrite: removes the files of an earlier run in `folder`; never other files, nor files that the pipe gets from
            `list_files`.
        partition_by: the name of a column, or of several, whose values become folders, as in `year=2024/city=007`, and
            are not in the files. They may be text, integers, booleans and dates. The rows of a folder keep their order.
            Rows of up to 256 MiB wait in memory until a row group of their folder is complete; at most 64 files are
            open.

    Raises:
        ArgumentError: the folder is not empty; `partition_by` names no columns for folders.
        DataError: a row is no dict, has other columns than the first, or a value of another type; the error names row
            and column. Or the pipe gives no row, and there is no `schema`.
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
    folder_columns = (
        check_names("partition_by", [partition_by] if isinstance(partition_by, str) else partition_by) or ()
    )
    builder = BatchBuilder(check_schema(schema), "write_parquet")
    run = ChunkedRun(pipe, CHUNK_ROWS, workers)
    with DatasetWriter(
        run, folder, "write_parquet", "parquet", filesystem=filesystem, progress=progress, overwrite=overwrite
    ) as writer:
        return write_tables(
            writer,
            run,
            builder,
            limits,
            row_group_rows,
            lambda file, schema: _writer(file, schema, compression),
            lambda file, group: file.write_table(group, row_group_size=len(group)),
            folder_columns,
        )


def _writer(file: OutputFile, schema: pa.Schema, codec: Compression) -> pq.ParquetWriter:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetWriter(cast("Any", file), schema, compression=cast("Any", codec or "none"))
    except pa.ArrowException as error:
        raise DataError(f"Parquet cannot store these columns: {error}") from error
