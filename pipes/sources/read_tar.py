"""`read_tar`: the rows of tar files, from their paths."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..ops.parsing.open_files import open_files
from ..ops.parsing.tar import parse_tar
from ..pipe import Pipe
from .list_files import list_files


def read_tar(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    compression: str | None = "infer",
    path_column: str | None = None,
) -> Pipe[dict[str, object]]:
    """Begin a pipe with the rows of tar files: `list_files`, `open_files` and `parse_tar` in one call.

    Element: a dict of the key and of `bytes` by extension, as in WebDataset; `.decode()` makes images, numbers and text
    of them. Order: the files as `list_files` sorts them, and in each the rows'. Length: unknown, streamed. State: the
    byte at which a row begins, which a resume seeks. The work is dealt by files, and a `shuffle` behind shuffles their
    order too. Errors name file and byte.

    Args:
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in folders below as well.
        filesystem: a pyarrow or fsspec file system that `paths` are on; else they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        compression: of all files, or "infer" by the end of each name; see `open_files`.
        path_column: the name of a further key with the path of the tar file.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a file is no tar file, is damaged, or holds what makes no row; see `parse_tar`.

    Example:
        >>> import feedpipe as fp, io, tarfile
        >>> with tarfile.open("a.tar", "w") as tar:
        ...     member = tarfile.TarInfo("7.txt")
        ...     member.size = 5
        ...     tar.addfile(member, io.BytesIO(b"seven"))
        >>> list(fp.read_tar("a.tar").decode())
        [{'__key__': '7', 'txt': 'seven'}]
    """
    files = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_tar(open_files(files, compression=compression, filesystem=filesystem), path_column=path_column)
