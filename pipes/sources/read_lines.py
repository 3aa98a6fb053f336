"""`read_lines`: the lines of text files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..core.policy import OnError
from ..ops.parsing.lines import parse_lines
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_lines(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    encoding: str = "utf-8",
    on_error: OnError | None = None,
) -> Pipe[str]:
    r"""Begin a pipe with the lines of text files: `list_files`, `open_files` and `parse_lines` in one call.

    Element: a line, without its end. Order: the files as `list_files` sorts them, and the lines of each file in order.
    Length: unknown; streamed. State: a position in a file, to which a resume seeks. Workers share the work by ranges of
    files, so several can read one file.

    Args:
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob.
        recursive: in folders, takes the files in their subfolders as well.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        compression: of all files; "infer" goes by the end of each name; see `open_files`.
        encoding: of the text; see `parse_lines`.
        on_error: what happens to a line that is not in that encoding; see `map`.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a line is not in that encoding. The error comes after the lines before it.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("one\ntwo\n")
        >>> list(fp.read_lines("a.txt"))
        ['one', 'two']
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_lines(
        open_files(listed, compression=compression, filesystem=filesystem, cache=cache),
        encoding=encoding,
        on_error=on_error,
    )
