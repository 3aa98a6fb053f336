"""`write_arrow`: the rows of a pipe as Arrow files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ..core.checks import check_choice, check_int
from ..errors import DataError
from ..formats.tables.columns import Schema, check_schema
from ..pipe import Pipe
from ._columns import BatchBuilder
from ._dataset_writer import ChunkedRun, DatasetWriter, Limits, OutputFile
from ._table_files import CHUNK_ROWS, write_tables

if TYPE_CHECKING:
    import pyarrow as pa

ArrowCompression: TypeAlias = Literal["zstd", "lz4"] | None


def write_arrow(
    pipe: Pipe[Mapping[str, object]],
    folder: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    file_size: int | str | None = None,
    batch_rows: int = 10_000,
    compression: ArrowCompression = None,
    schema: Schema | None = None,
    filesystem: object = None,
    workers: int = 0,
    progress: bool = True,
    overwrite: bool = False,
) -> str:
    """Write the rows of a pipe into Arrow files `part-00000.arrow` and so on; returns the path of their manifest.

    The files are of Arrow's IPC format (Feather version 2), for `read_arrow`, which gives their rows in any order.
    Element: a dict. Columns, types and order are as in `write_parquet`. Memory: one record batch.

    A file gets its name when it is complete. `_manifest.jsonl` is written last, with the rows, bytes and checksum of
    each file, so a folder with a manifest has all its files; see `verify`, and `manifest=` of the readers. A run that
    fails or is killed leaves only complete files. For a pipe without rows, one file without rows is written, with the
    columns that `schema` names.

    Args:
        pipe: gives the rows.
        folder: a path or URL; the folder must be empty or missing, unless `overwrite` is true.
        rows_per_file: rows of each file but the last.
        file_size: bytes after which a file is full, such as "1GiB", in place of `rows_per_file`; the file ends with the
            record batch that exceeds the size. By default 256 MiB.
        batch_rows: the maximum number of rows of a record batch. A record batch takes at most 64 MiB of memory.
        compression: "zstd", "lz4" or None, of each column. Files that are not compressed are read in place, out of
            mapped memory.
        schema: types by name, as Arrow types or their names, or a pyarrow schema. Other columns have the types of the
            first rows.
        filesystem: a pyarrow or fsspec file system for `folder`; without it, `folder` is a local path or a URL.
        workers: the number of processes that run the pipe; this process writes.
        progress: on a terminal, shows rows, files and bytes.
        overwrite: removes the files of an earlier run in `folder`; never other files, nor files that the pipe gets from
            `list_files`.

    Raises:
        ArgumentError: the folder is not empty.
        DataError: a row is no dict, has other columns than the first, or a value of another type; the error names row
            and column. Or the pipe gives no row, and there is no `schema`.
        SourceError: a file cannot be written.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(5)).map(lambda i: {"id": i, "square": i * i})
        >>> fp.write_arrow(pipe, "squares", rows_per_file=3)
        'squares/_manifest.jsonl'
        >>> fp.read_arrow("squares")[4]
        {'id': 4, 'square': 16}
    """
    limits = Limits(rows_per_file, file_size)
    check_int("batch_rows", batch_rows, least=1)
    check_choice("compression", compression, ("zstd", "lz4", None))
    builder = BatchBuilder(check_schema(schema), "write_arrow")
    run = ChunkedRun(pipe, CHUNK_ROWS, workers)
    with DatasetWriter(
        run, folder, "write_arrow", "arrow", filesystem=filesystem, progress=progress, overwrite=overwrite
    ) as writer:
        return write_tables(
            writer,
            run,
            builder,
            limits,
            batch_rows,
            lambda file, schema: _writer(file, schema, compression),
            lambda file, table: file.write_table(table.combine_chunks()),
        )


def _writer(file: OutputFile, schema: pa.Schema, compression: ArrowCompression) -> pa.RecordBatchFileWriter:
    import pyarrow as pa

    try:
        return pa.ipc.new_file(cast("Any", file), schema, options=pa.ipc.IpcWriteOptions(compression=compression))
    except pa.ArrowException as error:
        raise DataError(f"Arrow's files cannot store these columns: {error}") from error
