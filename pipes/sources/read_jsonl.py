"""`read_jsonl`: the objects of JSON-lines files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.policy import OnError
from ..core.rows import Row
from ..formats.tables.columns import Schema
from ..ops.parsing.jsonl import parse_jsonl
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_jsonl(
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
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well; names such as `year=2024` become columns.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        compression: of all files; "infer" goes by the end of each name; see `open_files`.
        schema: types by name; see `parse_jsonl`.
        columns: reads only these fields, in this order.
        path_column: the name of a further column with the path of the file.
        row_column: the name of a further column with the number of the row in its file, from 0.
        unify_schemas: gives the columns of all files, with null if a file lacks one; see `parse_jsonl`.
        on_error: what happens to a line that is no such object; see `map`.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a line is no such JSON object. The error comes after the rows before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
        >>> list(fp.read_jsonl("a.jsonl"))
        [{'x': 1}, {'x': 2}]
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_jsonl(
        open_files(listed, compression=compression, filesystem=filesystem, cache=cache),
        schema=schema,
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        on_error=on_error,
    )
