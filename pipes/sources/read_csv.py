"""`read_csv`: the rows of CSV files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.policy import OnError
from ..core.rows import Row
from ..formats.csv.options import NULL_VALUES
from ..formats.tables.columns import Schema
from ..ops.parsing.csv import parse_csv
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_csv(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
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
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well; names such as `year=2024` become columns.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        compression: of all files; "infer" goes by the end of each name; see `open_files`.
        schema: types by name; see `parse_csv` for this and the arguments below.
        columns: reads only these, in this order.
        delimiter: the character between values.
        header: whether the first line of each file has the names; by default it has, unless `column_names` is given.
        column_names: names for all columns, in place of the header's.
        quote: the character around a value; None means that quotes are plain characters.
        null_values: texts that mean a missing value in columns that are not text.
        newlines_in_values: False promises that each record is one line, so that several workers can read one file.
        encoding: of the files, any that Python knows.
        path_column: the name of a further column with the path of the file.
        row_column: the name of a further column with the number of the row in its file, from 0.
        unify_schemas: gives the columns of all files, with null if a file lacks one; see `parse_csv`.
        on_error: what happens to a row that cannot be parsed, such as one with too few values; see `map`.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a file does not fit these options. The error comes after the rows before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.csv").write_text("x,y\n1,2.5\n3,4.5\n")
        >>> list(fp.read_csv("a.csv"))
        [{'x': 1, 'y': 2.5}, {'x': 3, 'y': 4.5}]
        >>> fp.read_csv("a.csv", columns=["y"]).batch(2).head()
        [Rows(2 x ['y'])]
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_csv(
        open_files(listed, compression=compression, filesystem=filesystem, cache=cache),
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
