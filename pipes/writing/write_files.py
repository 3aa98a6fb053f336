"""`write_arrow`, `write_parquet` and `write_tfrecord`: the rows of a pipe as files of tables."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, TypeAlias, cast

from ..core.checks import check_choice, check_int
from ..core.lazy import pa
from ..errors import ArgumentError, DataError
from ..files.tfrecord_examples import write_records
from ..files.tfrecord_records import PACKAGE, index_line
from ..formats.columns import Schema, check_schema
from ..pipe import Pipe
from ._dataset_writer import Limits, OutputFile, write_dataset
from ._run import ChunkedRun, SavedRun
from ._tables import CHUNK_ROWS, ColumnSink, TableSink
from .parquet_encodings import choose_storage

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
    index: bool = False,
) -> str:
    """Write the rows of a pipe into Arrow files `part-00000.arrow` and so on; return the path of their manifest.

    The files are of Arrow's IPC format (Feather version 2), for `read_arrow`, which gives their rows in any order.
    Element: a dict. Columns, types, order and manifest are as in `write_parquet`, and a run that is killed goes on as
    there. Memory: one record batch.

    Args:
        pipe, folder, schema, filesystem, workers, progress, overwrite, index: as in `write_parquet`.
        rows_per_file, file_size: as there; a file ends with the record batch that exceeds the size.
        batch_rows: the maximum number of rows of a record batch. A record batch takes at most 64 MiB of memory.
        compression: "zstd", "lz4" or None, of each column. Files that are not compressed are read in place, out of
            mapped memory.

    Raises:
        ArgumentError: the folder holds another run, or other files.
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
    check_int("batch_rows", batch_rows, least=1)
    check_choice("compression", compression, ("zstd", "lz4", None))
    sink = ArrowSink(Limits.of(rows_per_file, file_size), check_schema(schema), batch_rows, compression=compression)
    run = ChunkedRun(pipe, CHUNK_ROWS, workers)
    return write_dataset(run, sink, folder, filesystem, progress=progress, overwrite=overwrite, index=index)


@dataclass
class ArrowSink(TableSink):
    """Writes Arrow files."""

    made_by: ClassVar[str] = "write_arrow"

    compression: ArrowCompression = None

    @property
    def ending(self) -> str:
        return "arrow"

    @contextmanager
    def open_tables(self, file: OutputFile, first: pa.Table) -> Generator[Callable[[pa.Table], object]]:
        options = pa.ipc.IpcWriteOptions(compression=self.compression)
        try:
            writer = pa.ipc.new_file(cast("Any", file), first.schema, options=options)
        except pa.ArrowException as error:
            raise DataError(f"Arrow's files cannot store these columns: {error}") from error
        with writer:
            yield lambda table: writer.write_table(table.combine_chunks())


Compression: TypeAlias = Literal["auto", "lz4", "zstd", "snappy", "gzip", "brotli"] | None

_CODECS = ("auto", "lz4", "zstd", "snappy", "gzip", "brotli", None)


def write_parquet(
    pipe: Pipe[Mapping[str, object]],
    folder: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    file_size: int | str | None = None,
    row_group_rows: int = 100_000,
    compression: Compression = "auto",
    schema: Schema | None = None,
    filesystem: object = None,
    workers: int = 0,
    progress: bool = True,
    overwrite: bool = False,
    index: bool = False,
) -> str:
    """Write the rows of a pipe into Parquet files `part-00000.parquet` and so on; return the path of their manifest.

    Element: a dict. The first 256 rows fix the columns, and the types of those that `schema` does not name. Columns
    that come from a file stay columns. Arrays and tensors of one shape become a column of tensors; arrays of one axis
    and several lengths become a column of lists. Lists, dicts, bytes, dates and None take Arrow's types.
    Order: that of `Loader(pipe, workers=workers)` in epoch 0 with seed 0, which is the pipe's own unless the pipe is
    streamed and several workers read it. Memory: one row group.

    A file gets its name when it is complete. `_manifest.jsonl` is written last, with the rows, bytes and checksum of
    each file; see `verify`. If a run fails or is killed, make the same call again, with any number of workers: it goes
    on after the complete files, and in the end all files are those of a run that was not killed. If the folder has them
    all, the call does nothing. A run that another one has taken over ends with an error. A pipe without rows makes one
    file without rows, with the columns that `schema` names.

    Args:
        pipe: gives the rows.
        folder: a path or URL. The folder must be empty or missing, or hold a run of this call.
        rows_per_file: rows of each file but the last. A file ends early before the first null of a column, and the next
            one has the rest of its rows.
        file_size: bytes after which a file is full, such as "1GiB", instead of `rows_per_file`; the file ends with the
            row group that exceeds the size. By default 256 MiB.
        row_group_rows: the most rows of a row group, the unit by which readers share the work; several for each shard
            are enough. A row group takes at most 64 MiB of memory.
        compression: "auto" takes lz4, which reads fastest, and zstd for columns that it makes smaller by a quarter. Or
            "lz4", "zstd", "snappy", "gzip", "brotli" or None for all columns; old readers may know only "snappy".
        schema: types by name, as Arrow types or their names, or a pyarrow schema. Other columns have the types of the
            first rows.
        filesystem: a pyarrow or fsspec file system for `folder`; without it, `folder` is a local path or a URL.
        workers: the number of processes that run the pipe; this process writes.
        progress: on a terminal, shows rows, files and bytes.
        overwrite: removes the files of another or a complete run in `folder`; never other files, nor files that the
            pipe gets from `list_files`.
        index: makes an index of the files beside them, `_files.index`, for `manifest=` of the reader; see `index`.

    Raises:
        ArgumentError: the folder holds another run, or other files.
        DataError: a row is no dict, has other columns than the first, or a value of another type; the error names row
            and column. Or the pipe gives no row, and there is no `schema`.
        SourceError: a file cannot be written.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(5)).map(lambda i: {"id": i, "square": i * i})
        >>> fp.write_parquet(pipe, "table", rows_per_file=3)
        'table/_manifest.jsonl'
        >>> list(fp.list_files("table")), fp.read_parquet("table").head(2)
        (['table/part-00000.parquet', 'table/part-00001.parquet'], [{'id': 0, 'square': 0}, {'id': 1, 'square': 1}])
    """
    check_int("row_group_rows", row_group_rows, least=1)
    check_choice("compression", compression, _CODECS)
    sink = ParquetSink(Limits.of(rows_per_file, file_size), check_schema(schema), row_group_rows, compression)
    run = ChunkedRun(pipe, CHUNK_ROWS, workers)
    return write_dataset(run, sink, folder, filesystem, progress=progress, overwrite=overwrite, index=index)


@dataclass
class ParquetSink(TableSink):
    """Writes Parquet files."""

    made_by: ClassVar[str] = "write_parquet"

    compression: Compression = "auto"
    with_nulls: set[str] = field(default_factory=set, init=False, repr=False)
    """The columns that have had a null."""

    @property
    def ending(self) -> str:
        return "parquet"

    @property
    def schema(self) -> pa.Schema | None:
        schema = super().schema
        return schema if schema is None else self._file_schema(schema)

    def go_on(self, saved: SavedRun) -> None:
        super().go_on(saved)
        self.with_nulls.update(field.name for field in saved.schema or () if field.nullable)

    def fits(self, file: OutputFile, item: pa.Table) -> bool:
        return file.without_nulls.isdisjoint(_columns_with_nulls(item))

    @contextmanager
    def open_tables(self, file: OutputFile, first: pa.Table) -> Generator[Callable[[pa.Table], object]]:
        import pyarrow.parquet as pq

        self.with_nulls.update(_columns_with_nulls(first))
        schema = self._file_schema(first.schema)
        file.without_nulls = frozenset(field.name for field in schema if not field.nullable)
        first = pa.Table.from_arrays(first.columns, schema=schema)
        try:
            writer = pq.ParquetWriter(cast("Any", file), schema, **choose_storage(first, self.compression).options())
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise DataError(f"Parquet cannot store these columns: {error}") from error
        with writer:
            yield lambda group: writer.write_table(
                pa.Table.from_arrays(group.columns, schema=schema), row_group_size=len(group)
            )

    def _file_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of a file that begins now."""
        return pa.schema([field.with_nullable(field.name in self.with_nulls) for field in schema])


def _columns_with_nulls(table: pa.Table) -> Iterator[str]:
    """The columns that have nulls; all of a table without rows."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not len(table) or column.null_count:
            yield name


_GZIP_BITS = 31  # zlib's number for the largest window, and gzip's head and checksum


def write_tfrecord(
    pipe: Pipe[Mapping[str, object]],
    folder: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    file_size: int | str | None = None,
    compression: Literal["gzip"] | None = None,
    index: bool = False,
    schema: Schema | None = None,
    filesystem: object = None,
    workers: int = 0,
    progress: bool = True,
    overwrite: bool = False,
) -> str:
    """Write the rows of a pipe into TFRecord files `part-00000.tfrecord` and so on; return the path of their manifest.

    Element: a dict, which becomes a `tf.train.Example`. The first 256 rows fix the columns, and the types of those that
    `schema` does not name, as in `write_parquet`. Ints and bools become ints of 64 bits; floats become floats of 32
    bits, the only ones of the format; strings become bytes in UTF-8. Lists, arrays and tensors of these become lists
    without a shape. A missing value is left out. Order, manifest and runs that are killed: as in `write_parquet`. Two
    runs write equal bytes. Memory: 256 rows. A pipe without rows makes an empty file.

    Args:
        pipe, folder, schema, filesystem, workers, progress, overwrite: as in `write_parquet`.
        rows_per_file, file_size: as there; a file ends with the record that exceeds the size.
        compression: "gzip" compresses each file, whose name then ends with `.tfrecord.gz`. A compressed file serves one
            worker at a time.
        index: writes an index beside each file, `part-00000.index` and so on, with the first byte and the size of each
            record; `read_tfrecord(indexed=True)` reads rows by position with it. Files must not be compressed.

    Raises:
        ArgumentError: the folder holds another run, or other files; or the package for checksums is not installed;
            `pip install 'feedpipe[tfrecord]'` installs it.
        DataError: a row is no dict, has other columns than the first, or a value of another type; a column has a type
            that an Example cannot hold.
        SourceError: a file cannot be written.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(3)).map(lambda i: {"id": i, "name": f"row {i}"})
        >>> fp.write_tfrecord(pipe, "records")
        'records/_manifest.jsonl'
        >>> fp.read_tfrecord("records", features={"id": "int64", "name": "string"}).head(2)
        [{'id': 0, 'name': 'row 0'}, {'id': 1, 'name': 'row 1'}]
    """
    PACKAGE.check()
    check_choice("compression", compression, ("gzip", None))
    if index and compression is not None:
        raise ArgumentError(
            "`index` must be left out if `compression` is given: no record of such a file can be sought"
        )
    sink = TFRecordSink(Limits.of(rows_per_file, file_size), check_schema(schema), compression, index=bool(index))
    run = ChunkedRun(pipe, CHUNK_ROWS, workers)
    return write_dataset(run, sink, folder, filesystem, progress=progress, overwrite=overwrite)


@dataclass
class TFRecordSink(ColumnSink[bytes]):
    """Writes records one after another."""

    made_by: ClassVar[str] = "write_tfrecord"

    compression: Literal["gzip"] | None
    index: bool

    @property
    def ending(self) -> str:
        return "tfrecord" if self.compression is None else "tfrecord.gz"

    def items(self, run: ChunkedRun) -> Iterator[bytes]:
        return chain.from_iterable(write_records(self.batch(chunk)) for chunk in run)

    @contextmanager
    def open(self, file: OutputFile, first: bytes | None) -> Generator[Callable[[bytes], None]]:
        gzip = None if self.compression is None else zlib.compressobj(wbits=_GZIP_BITS)
        lines: list[bytes] = []

        def write(record: bytes) -> None:
            if self.index:
                lines.append(index_line(file.bytes, len(record)))
            file.write(record if gzip is None else gzip.compress(record))

        yield write
        if gzip is not None:
            file.write(gzip.flush())
        if self.index:
            file.beside["index"] = b"".join(lines)
