"""The readers of files: `list_files`, `open_files` and the parser of a format in one call.

`list_files` documents the arguments that say which files, `open_files` how these are opened, and the parser of the
format its own ones, the same as here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.lazy import pc
from ..core.rows import Row
from ..core.skips import OnError
from ..files.arrow import parse_arrow
from ..files.avro import parse_avro
from ..files.csv import NULL_VALUES, parse_csv
from ..files.jsonl import parse_jsonl
from ..files.lines import parse_bytes, parse_lines
from ..files.mds import parse_mds
from ..files.open_files import open_files
from ..files.orc import parse_orc
from ..files.parquet import parse_parquet
from ..files.tar import parse_tar
from ..files.tfrecord import Features, parse_tfrecord
from ..formats.columns import Schema
from ..pipe import Pipe
from ..storage.file import File
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_arrow(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    """Begin a pipe with the rows of Arrow files (IPC, Feather version 2), which can be read in any order.

    It is `list_files`, `open_files` and `parse_arrow(indexed=True)` in one call.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns. Names and types are the first
    file's, unless `unify_schemas`. Order: the files as `list_files` sorts them, and the rows of each file in order.
    Length: that of all files; indexed. State: a position. Local files are mapped into memory: the system reads a page
    when a row needs it, and processes share the pages. Errors name file and column, or file and row.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        cache: how they are opened; see `open_files`.
        columns, path_column, row_column, unify_schemas: the columns of the rows; see `parse_arrow`.

    Raises:
        SourceError: a path is missing, matches no file, cannot be read, or has changed since its footer was read.
        DataError: a file is no Arrow file of this kind, or has other columns than the first. `parse_arrow` reads
            streams.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.feather
        >>> pa.feather.write_feather(pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), "a.arrow")
        >>> pipe = fp.read_arrow("a.arrow", columns=["y"])
        >>> len(pipe), pipe[-1], pipe.shuffle().batch(3).collate()[0]["y"].sum()
        (3, {'y': 2.5}, tensor(4.5000, dtype=torch.float64))
    """
    return parse_arrow(
        _files(paths, pattern, filesystem, manifest, version, cache, "infer", recursive=recursive),
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        indexed=True,
    )


def read_avro(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    path_column: str | None = None,
    on_error: OnError | None = None,
) -> Pipe[dict[str, object]]:
    """Begin a pipe with the records of Avro files: `list_files`, `open_files` and `parse_avro` in one call.

    Element: a dict, as fastavro makes it; records of all files have the schema of the first one. Order: the files as
    `list_files` sorts them, and the records of each file in order. Length: unknown; streamed. State: the byte at which
    a block of records begins, to which a resume seeks. Workers share the work by ranges of files, and a later `shuffle`
    shuffles the ranges too. Errors name file and byte.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        cache: how they are opened; see `open_files`.
        path_column: a further key; see `parse_avro`.
        on_error: what happens to a row that cannot be parsed; see `parse_avro`.

    Raises:
        ArgumentError: fastavro is not installed; `pip install 'feedpipe[avro]'` installs it.
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a file is no Avro file, is damaged, or has records that do not fit the schema; see `parse_avro`.

    Example:
        >>> import feedpipe as fp, fastavro
        >>> schema = {"type": "record", "name": "row", "fields": [{"name": "x", "type": ["null", "double"]}]}
        >>> with open("a.avro", "wb") as file:
        ...     fastavro.writer(file, schema, [{"x": 0.5}, {"x": None}], codec="deflate")
        >>> list(fp.read_avro("a.avro"))
        [{'x': 0.5}, {'x': None}]
    """
    return parse_avro(
        _files(paths, pattern, filesystem, manifest, version, cache, "infer", recursive=recursive),
        path_column=path_column,
        on_error=on_error,
    )


def read_bytes(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
) -> Pipe[dict[str, object]]:
    """Begin a pipe with whole files: `list_files`, `open_files` and `parse_bytes` in one call.

    Element: `{"path": str, "bytes": bytes}`; `.decode()` turns the bytes into images, text and numbers. Order: the
    files as `list_files` sorts them. Length: the number of files; indexed. State: a position.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        compression, cache: how they are opened; see `open_files`.

    Raises:
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a compressed file is damaged, or holds more than 2 GiB. The error comes after the files before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("hello")
        >>> fp.read_bytes("*.txt").decode()[0]
        {'path': 'a.txt', 'bytes': 'hello'}
    """
    return parse_bytes(_files(paths, pattern, filesystem, manifest, version, cache, compression, recursive=recursive))


def read_csv(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    header: bool | None = None,
    column_names: Sequence[str] | None = None,
    quote: str | None = '"',
    null_values: Sequence[str] = NULL_VALUES,
    newlines_in_values: bool = True,
    encoding: str = "utf-8",
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    on_error: OnError | None = None,
) -> Pipe[Row]:
    r"""Begin a pipe with the rows of CSV files: `list_files`, `open_files` and `parse_csv` in one call.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns. Names and types are fixed before
    the first row. Order: the files as `list_files` sorts them, and the rows of each file in order. Length: unknown;
    streamed. State: a position in a file, to which a resume seeks. Workers share the work by files, or by ranges of
    files with `newlines_in_values=False`. Errors name file, line and column.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        compression, cache: how they are opened; see `open_files`.
        schema, columns, path_column, row_column, unify_schemas: the columns of the rows; see `parse_csv`.
        delimiter, header, column_names, quote, null_values, newlines_in_values: the form; see `parse_csv`.
        encoding: of the files; see `parse_csv`.
        on_error: what happens to a row that cannot be parsed; see `parse_csv`.

    Raises:
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a file does not fit these options. The error comes after the rows before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.csv").write_text("x,y\n1,2.5\n3,4.5\n")
        >>> list(fp.read_csv("a.csv"))
        [{'x': 1, 'y': 2.5}, {'x': 3, 'y': 4.5}]
        >>> fp.read_csv("a.csv", columns=["y"]).batch(2).head()
        [Rows(2 x ['y'])]
    """
    return parse_csv(
        _files(paths, pattern, filesystem, manifest, version, cache, compression, recursive=recursive),
        schema=schema,
        columns=columns,
        delimiter=delimiter,
        header=header,
        column_names=column_names,
        quote=quote,
        null_values=null_values,
        newlines_in_values=newlines_in_values,
        encoding=encoding,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        on_error=on_error,
    )


def read_jsonl(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    on_error: OnError | None = None,
) -> Pipe[Row]:
    r"""Begin a pipe with the objects of JSON-lines files: `list_files`, `open_files` and `parse_jsonl` in one call.

    Element: a dict with the same keys in each row, whose values may be nested; a batch of them is `Rows`, which keeps
    columns. Names and types are fixed before the first row. Order: the files as `list_files` sorts them, and the lines
    of each file in order. Length: unknown; streamed. State: a position in a file, to which a resume seeks. Workers
    share the work by ranges of files, so several can read one file. Errors name file, line and field.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        compression, cache: how they are opened; see `open_files`.
        schema, columns, path_column, row_column, unify_schemas: the columns of the rows; see `parse_jsonl`.
        on_error: what happens to a row that cannot be parsed; see `parse_jsonl`.

    Raises:
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a line is no such JSON object. The error comes after the rows before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
        >>> list(fp.read_jsonl("a.jsonl"))
        [{'x': 1}, {'x': 2}]
    """
    return parse_jsonl(
        _files(paths, pattern, filesystem, manifest, version, cache, compression, recursive=recursive),
        schema=schema,
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        on_error=on_error,
    )


def read_lines(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    encoding: str = "utf-8",
    on_error: OnError | None = None,
) -> Pipe[str]:
    r"""Begin a pipe with the lines of text files: `list_files`, `open_files` and `parse_lines` in one call.

    Element: a line, without its end. Order: the files as `list_files` sorts them, and the lines of each file in order.
    Length: unknown; streamed. State: a position in a file, to which a resume seeks. Workers share the work by ranges of
    files, so several can read one file.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        compression, cache: how they are opened; see `open_files`.
        encoding: the form of the text; see `parse_lines`.
        on_error: what happens to a row that cannot be parsed; see `parse_lines`.

    Raises:
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a line is not in that encoding. The error comes after the lines before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("one\ntwo\n")
        >>> list(fp.read_lines("a.txt"))
        ['one', 'two']
    """
    return parse_lines(
        _files(paths, pattern, filesystem, manifest, version, cache, compression, recursive=recursive),
        encoding=encoding,
        on_error=on_error,
    )


def read_mds(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = "*.mds*",
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    path_column: str | None = None,
    indexed: bool = False,
    on_error: OnError | None = None,
) -> Pipe[dict[str, object]]:
    """Begin a pipe with the samples of MosaicML's shards: `list_files`, `open_files` and `parse_mds` in one call.

    Element: a dict with a value for each column; images in JPEG or PNG stay bytes. Order: the files as `list_files`
    sorts them, and the samples of each file in order. Length: unknown; streamed, or with `indexed=True` known; indexed.
    State: the number of a sample in its file, to which a resume seeks. Workers share the work by files, and a later
    `shuffle` shuffles the files too; with `indexed=True` they share it by samples. Errors name file and sample. The
    pattern leaves out `index.json`; files named `.mds.zstd` need `compression="zstd"`.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        compression, cache: how they are opened; see `open_files`.
        path_column: a further key; see `parse_mds`.
        indexed: gives rows by position; see `parse_mds`.
        on_error: what happens to a row that cannot be parsed; see `parse_mds`.

    Raises:
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a file is no shard, is damaged, or has a column whose encoding is not read; see `parse_mds`.

    Example:
        >>> import feedpipe as fp, json, pathlib, struct
        >>> columns = {"column_names": ["t"], "column_encodings": ["str"], "column_sizes": [None]}
        >>> text = json.dumps({"format": "mds", "version": 2, **columns}).encode()
        >>> begin = 12 + len(text)
        >>> sample = struct.pack("<I", 3) + b"one"
        >>> data = struct.pack("<3I", 1, begin, begin + len(sample)) + text + sample
        >>> _ = pathlib.Path("shard.00000.mds").write_bytes(data)
        >>> list(fp.read_mds("."))
        [{'t': 'one'}]
        >>> len(fp.read_mds(".", indexed=True))
        1
    """
    return parse_mds(
        _files(paths, pattern, filesystem, manifest, version, cache, compression, recursive=recursive),
        path_column=path_column,
        indexed=indexed,
        on_error=on_error,
    )


def read_orc(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    """Begin a pipe with the rows of ORC files: `list_files`, `open_files` and `parse_orc` in one call.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns. Names and types are the first
    file's, unless `unify_schemas`. Order: the files as `list_files` sorts them, and the rows of each file in order.
    Length: known from the footers; streamed. State: a stripe and a position in it. Workers share the work by stripes,
    and a later `shuffle` shuffles the stripes too. Errors name file and column, or file and row.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        cache: how they are opened; see `open_files`.
        columns, path_column, row_column, unify_schemas: the columns of the rows; see `parse_orc`.

    Raises:
        SourceError: a path is missing, matches no file, cannot be read, or has changed since its footer was read.
        DataError: a file is no ORC file, is damaged, or has other columns than the first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.orc
        >>> pa.orc.write_table(pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), "a.orc")
        >>> pipe = fp.read_orc("a.orc", columns=["y"])
        >>> len(pipe), pipe.batch(2).collate().head(1)
        (3, [{'y': tensor([0.5000, 1.5000], dtype=torch.float64)}])
    """
    return parse_orc(
        _files(paths, pattern, filesystem, manifest, version, cache, "infer", recursive=recursive),
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
    )


def read_parquet(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,  # noqa: A002 - as in pyarrow
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    dictionaries: Sequence[str] | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the rows of Parquet files: `list_files`, `open_files` and `parse_parquet` in one call.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns. Names and types are the first
    file's, unless `unify_schemas`. Order: the files as `list_files` sorts them, and the rows of each file in order.
    Length: known from the footers, unless there is a `filter`; streamed. State: a row group and a position in it.
    Workers share the work by row groups, and a later `shuffle` shuffles the row groups too. Errors name file and
    column, or file and row.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        cache: how they are opened; see `open_files`.
        columns, path_column, row_column, unify_schemas, dictionaries: the columns of the rows; see `parse_parquet`.
        filter: the rows to read; see `parse_parquet`.

    Raises:
        SourceError: a path is missing, matches no file, cannot be read, or has changed since its footer was read.
        DataError: a file is no Parquet file, is damaged, or has other columns than the first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.parquet
        >>> pa.parquet.write_table(pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), "a.parquet")
        >>> pipe = fp.read_parquet("a.parquet", columns=["y"])
        >>> len(pipe), pipe.batch(2).collate().head(1)
        (3, [{'y': tensor([0.5000, 1.5000], dtype=torch.float64)}])
    """
    return parse_parquet(
        _files(paths, pattern, filesystem, manifest, version, cache, "infer", recursive=recursive),
        columns=columns,
        filter=filter,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        dictionaries=dictionaries,
    )


def read_tar(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    path_column: str | None = None,
    on_error: OnError | None = None,
) -> Pipe[dict[str, object]]:
    """Begin a pipe with the rows of tar files: `list_files`, `open_files` and `parse_tar` in one call.

    Element: a dict of the key and of `bytes` by extension, as in WebDataset; `.decode()` turns them into images,
    numbers and text. Order: the files as `list_files` sorts them, and the rows of each file in order. Length: unknown;
    streamed. State: the byte at which a row begins, to which a resume seeks. Workers share the work by files, and a
    later `shuffle` shuffles the files too. Errors name file and byte.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        compression, cache: how they are opened; see `open_files`.
        path_column: a further key; see `parse_tar`.
        on_error: what happens to a row that cannot be parsed; see `parse_tar`.

    Raises:
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a file is no tar file, is damaged, or has members that make no row; see `parse_tar`.

    Example:
        >>> import feedpipe as fp, io, tarfile
        >>> with tarfile.open("a.tar", "w") as tar:
        ...     member = tarfile.TarInfo("7.txt")
        ...     member.size = 5
        ...     tar.addfile(member, io.BytesIO(b"seven"))
        >>> list(fp.read_tar("a.tar").decode())
        [{'__key__': '7', 'txt': 'seven'}]
    """
    return parse_tar(
        _files(paths, pattern, filesystem, manifest, version, cache, compression, recursive=recursive),
        path_column=path_column,
        on_error=on_error,
    )


def read_tfrecord(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    features: Features | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    indexed: bool = False,
    on_error: OnError | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the records of TFRecord files: `list_files`, `open_files` and `parse_tfrecord` in one call.

    Element: a dict with a value for each feature of a `tf.train.Example`; a batch of them is `Rows`, which keeps
    columns. Order: the files as `list_files` sorts them, and the records of each file in order. Length: unknown;
    streamed, or with `indexed=True` indexed. State: the byte at which a record begins, to which a resume seeks. Workers
    share the work by ranges of files, without an index, and a later `shuffle` shuffles the ranges too. Errors name file
    and byte.

    Args:
        paths, pattern, recursive, filesystem, manifest, version: which files; see `list_files`.
        compression, cache: how they are opened; see `open_files`.
        features, path_column, row_column, unify_schemas: the columns of the rows; see `parse_tfrecord`.
        indexed: gives rows by position; see `parse_tfrecord`.
        on_error: what happens to a row that cannot be parsed; see `parse_tfrecord`.

    Raises:
        ArgumentError: the package for checksums is not installed; `pip install 'feedpipe[tfrecord]'` installs it.
        SourceError: a path is missing, matches no file, or cannot be read.
        DataError: a record is damaged or cut short, is no Example, or has other features than the first ones.

    Example:
        >>> import feedpipe as fp
        >>> _ = fp.write_tfrecord(fp.from_sequence(range(3)).map(lambda i: {"x": i / 2, "y": [i, i]}), "records")
        >>> list(fp.read_tfrecord("records"))
        [{'x': 0.0, 'y': [0, 0]}, {'x': 0.5, 'y': [1, 1]}, {'x': 1.0, 'y': [2, 2]}]
    """
    return parse_tfrecord(
        _files(paths, pattern, filesystem, manifest, version, cache, compression, recursive=recursive),
        features=features,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        indexed=indexed,
        on_error=on_error,
    )


def _files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    pattern: str | None,
    filesystem: object,
    manifest: str | os.PathLike[str] | None,
    version: int | None,
    cache: FileCache | None,
    compression: str | None,
    *,
    recursive: bool,
) -> Pipe[File]:
    listed = list_files(
        paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest, version=version
    )
    return open_files(listed, compression=compression, filesystem=filesystem, cache=cache)
