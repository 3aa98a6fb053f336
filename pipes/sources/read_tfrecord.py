"""`read_tfrecord`: the Examples of TFRecord files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..core.policy import OnError
from ..core.rows import Row
from ..formats.tfrecord.options import Features
from ..ops.parsing.open_files import open_files
from ..ops.parsing.tfrecord import parse_tfrecord
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_tfrecord(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
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
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well; names such as `year=2024` become columns.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        compression: of all files; "infer" goes by the end of each name; see `open_files`.
        features: reads only these: names, or types by name; see `parse_tfrecord` for this and the arguments below.
        path_column: the name of a further column with the path of the file.
        row_column: the name of a further column with the number of the record in its file, from 0.
        unify_schemas: takes the features of all files together.
        indexed: gives rows by position, by an index beside each file; see `parse_tfrecord`.
        on_error: what happens to a record that is damaged or does not fit the columns; see `map`.

    Raises:
        ArgumentError: the package for checksums is not installed; `pip install 'feedpipe[tfrecord]'` installs it.
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a record is damaged or cut short, is no Example, or has other features than the first ones.

    Example:
        >>> import feedpipe as fp
        >>> _ = fp.write_tfrecord(fp.from_sequence(range(3)).map(lambda i: {"x": i / 2, "y": [i, i]}), "records")
        >>> list(fp.read_tfrecord("records"))
        [{'x': 0.0, 'y': [0, 0]}, {'x': 0.5, 'y': [1, 1]}, {'x': 1.0, 'y': [2, 2]}]
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_tfrecord(
        open_files(listed, compression=compression, filesystem=filesystem, cache=cache),
        features=features,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        indexed=indexed,
        on_error=on_error,
    )
