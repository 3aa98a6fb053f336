"""`read_jsonl`: the objects of JSON-lines files, from their paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.rows import Row
from ..formats.tables.columns import Schema
from ..ops.parsing.jsonl import parse_jsonl
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from .list_files import list_files


def read_jsonl(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    compression: str | None = "infer",
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    r"""Begin a pipe with the objects of JSON-lines files: `list_files`, `open_files` and `parse_jsonl` in one call.

    Element: a dict with the same keys in each row; values may be nested; grouped, a `Rows`, which holds columns. Names
    and types are fixed before the first row. Order: the files as `list_files` sorts them, and in each the lines'.
    Length: unknown, streamed. State: a place in a file, which a resume seeks. The work is dealt by ranges of files, so
    many workers can read one. Errors name file, line and field.

    Args:
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in folders below as well; such as `year=2024` give columns.
        filesystem: a pyarrow or fsspec file system that `paths` are on; else they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        compression: of all files, or "infer" by the end of each name; see `open_files`.
        schema: types by name; see `parse_jsonl`.
        columns: reads only these fields, in this order.
        path_column: the name of a further column with the path of the file.
        row_column: the name of a further column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files together, null where a file lacks one; see `parse_jsonl`.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a file is not such JSON; the rows before come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
        >>> list(fp.read_jsonl("a.jsonl"))
        [{'x': 1}, {'x': 2}]
    """
    files = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    opened = open_files(files, compression=compression, filesystem=filesystem)
    return parse_jsonl(
        opened,
        schema=schema,
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
    )
