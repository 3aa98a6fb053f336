"""`read_tar`: the rows of tar files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..core.policy import OnError
from ..ops.parsing.open_files import open_files
from ..ops.parsing.tar import parse_tar
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_tar(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
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
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        compression: of all files; "infer" goes by the end of each name; see `open_files`.
        path_column: the name of a further key with the path of the tar file.
        on_error: what happens to a row with a member that cannot be a part of it; see `map`.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
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
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_tar(
        open_files(listed, compression=compression, filesystem=filesystem, cache=cache),
        path_column=path_column,
        on_error=on_error,
    )
