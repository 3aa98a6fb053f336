"""`read_avro`: the records of Avro files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..core.policy import OnError
from ..ops.parsing.avro import parse_avro
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_avro(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
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
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        path_column: the name of a further key with the path of the file.
        on_error: what happens to a record that cannot be read, and to the rest of its block; see `parse_avro`.

    Raises:
        ArgumentError: fastavro is not installed; `pip install 'feedpipe[avro]'` installs it.
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a file is no Avro file, is damaged, or has records that do not fit the schema; see `parse_avro`.

    Example:
        >>> import feedpipe as fp, fastavro
        >>> schema = {"type": "record", "name": "row", "fields": [{"name": "x", "type": ["null", "double"]}]}
        >>> with open("a.avro", "wb") as file:
        ...     fastavro.writer(file, schema, [{"x": 0.5}, {"x": None}], codec="deflate")
        >>> list(fp.read_avro("a.avro"))
        [{'x': 0.5}, {'x': None}]
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_avro(
        open_files(listed, filesystem=filesystem, cache=cache), path_column=path_column, on_error=on_error
    )
