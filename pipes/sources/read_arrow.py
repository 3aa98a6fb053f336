"""`read_arrow`: the rows of Arrow files, by position."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.rows import Row
from ..ops.parsing.arrow import parse_arrow
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from .list_files import list_files


def read_arrow(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    """Begin a pipe with the rows of Arrow files (IPC, Feather version 2), which can be had in any order.

    It is `list_files`, `open_files` and `parse_arrow(indexed=True)` in one call.

    Element: a dict of Python scalars; grouped, a `Rows`, which holds columns. Names and types are the first file's,
    unless `unify_schemas`. Order: the files as `list_files` sorts them, and in each the rows'. Length: that of all
    files; indexed. State: a position. Files on this machine are mapped into memory: nothing is read before it is
    wanted, and processes share what is. Errors name file and column, or file and row.

    Args:
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in folders below as well; such as `year=2024` give columns.
        filesystem: a pyarrow or fsspec file system that `paths` are on; else they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        columns: reads only these, in this order; see `parse_arrow`, also for what follows.
        path_column: the name of a further column with the path of the file.
        row_column: the name of a further column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files together, null where a file lacks one; see `parse_arrow`.

    Raises:
        SourceError: a path is missing, stands for no file, cannot be read, or has changed since its footer was read.
        DataError: a file is no such Arrow file, or has other columns than the first; streams are read by `parse_arrow`.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.feather
        >>> pa.feather.write_feather(pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), "a.arrow")
        >>> pipe = fp.read_arrow("a.arrow", columns=["y"])
        >>> len(pipe), pipe[-1], pipe.shuffle().batch(3).collate()[0]["y"].sum()
        (3, {'y': 2.5}, tensor(4.5000, dtype=torch.float64))
    """
    found = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_arrow(
        open_files(found, filesystem=filesystem),
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        indexed=True,
    )
