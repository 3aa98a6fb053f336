"""`write_tables`: the rows of a run as tables, in files that the writer of a format opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from ._columns import BatchBuilder
from ._cut_tables import cut_tables
from ._dataset_writer import ChunkedRun, DatasetWriter, Limits, OutputFile
from ._folder_files import FolderFiles
from ._folder_keys import check_folder_columns, split_by_folder

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 256
"""Rows that become columns, or come from a worker, at a time."""
_MAX_TABLE_BYTES = 2**26  # of memory, about
_SPLIT_ROWS = 2**19  # that are divided by folder at a time; each piece of a folder costs, however short it is

W = TypeVar("W", bound=AbstractContextManager[Any])


def write_tables(
    writer: DatasetWriter,
    run: ChunkedRun,
    builder: BatchBuilder,
    limits: Limits,
    max_rows: int,
    open_table_file: Callable[[OutputFile, pa.Schema], W],
    write: Callable[[W, pa.Table], object],
    folder_columns: Sequence[str] = (),
) -> str:
    """Writes all rows of a run, and returns the path of the manifest. Without rows, a file with columns alone.

    Args:
        writer: makes the files.
        run: gives the rows.
        builder: makes batches of them.
        limits: of a file.
        max_rows: of a table.
        open_table_file: begins to write a format into a file.
        write: writes a table into such a file, as a row group or a record batch.
        folder_columns: those whose values become folders.
    """
    max_bytes = min(_MAX_TABLE_BYTES, limits.bytes or _MAX_TABLE_BYTES)
    batches = map(builder.batch, run)
    if folder_columns:
        with FolderFiles(writer, limits, max_rows, max_bytes, open_table_file, write) as files:
            for table in cut_tables(batches, _SPLIT_ROWS, max_bytes, None):
                check_folder_columns(table.schema, folder_columns)
                for folder, rows in split_by_folder(table, folder_columns):
                    files.add(folder, rows)
            files.finish()
    else:
        tables = cut_tables(batches, max_rows, max_bytes, limits.rows)
        for first in tables:
            with writer.next_file() as file, open_table_file(file, first.schema) as table_file:
                for table in _of_one_file(first, tables, file, limits):
                    write(table_file, table)
                    file.count_rows(len(table))
    if not builder.rows:
        with writer.next_file() as file, open_table_file(file, builder.schema_without_rows()):
            pass
    return writer.finish()


def _of_one_file(
    table: pa.Table | None, tables: Iterator[pa.Table], file: OutputFile, limits: Limits
) -> Iterator[pa.Table]:
    """`table` and those after it, until the file is full."""
    while table is not None:
        yield table
        if file.rows == limits.rows or (limits.bytes is not None and file.bytes >= limits.bytes):
            return
        table = next(tables, None)
