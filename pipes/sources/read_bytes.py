"""`read_bytes`: whole files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..ops.parsing.bytes import parse_bytes
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_bytes(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
) -> Pipe[dict[str, object]]:
    """Begin a pipe with whole files: `list_files`, `open_files` and `parse_bytes` in one call.

    Element: `{"path": str, "bytes": bytes}`; `.decode()` turns the bytes into images, text and numbers. Order: the
    files as `list_files` sorts them. Length: the number of files; indexed. State: a position.

    Args:
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        compression: of all files; "infer" goes by the end of each name, None takes the bytes as they are.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a compressed file is damaged, or holds more than 1 GiB. The error comes after the files before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("hello")
        >>> fp.read_bytes("*.txt").decode()[0]
        {'path': 'a.txt', 'bytes': 'hello'}
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_bytes(open_files(listed, compression=compression, filesystem=filesystem, cache=cache))
