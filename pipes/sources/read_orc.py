"""`read_orc`: the rows of ORC files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.rows import Row
from ..ops.parsing.open_files import open_files
from ..ops.parsing.orc import parse_orc
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_orc(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
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
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well; names such as `year=2024` become columns.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        columns: reads only these, in this order; see `parse_orc` for this and the arguments below.
        path_column: the name of a further column with the path of the file.
        row_column: the name of a further column with the number of the row in its file, from 0; errors count from 1.
        unify_schemas: gives the columns of all files, with null if a file lacks one; see `parse_orc`.

    Raises:
        SourceError: a path is missing, stands for no file, cannot be read, or has changed since its footer was read.
        DataError: a file is no ORC file, is damaged, or has other columns than the first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.orc
        >>> pa.orc.write_table(pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), "a.orc")
        >>> pipe = fp.read_orc("a.orc", columns=["y"])
        >>> len(pipe), pipe.batch(2).collate().head(1)
        (3, [{'y': tensor([0.5000, 1.5000], dtype=torch.float64)}])
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_orc(
        open_files(listed, filesystem=filesystem, cache=cache),
        columns=columns,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
    )
