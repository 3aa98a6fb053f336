"""`read_mds`: the samples of MosaicML's shards."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..core.policy import OnError
from ..ops.parsing.mds import parse_mds
from ..ops.parsing.open_files import open_files
from ..pipe import Pipe
from ..storage.file_cache import FileCache
from .list_files import list_files


def read_mds(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = "*.mds*",
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    cache: FileCache | None = None,
    compression: str | None = "infer",
    path_column: str | None = None,
    indexed: bool = False,
    on_error: OnError | None = None,
) -> Pipe[dict[str, object]]:
    """Begin a pipe with the samples of MosaicML's shards: `list_files`, `open_files` and `parse_mds` in one call.

    Element: a dict with a value for each column; images in JPEG or PNG stay bytes. Order: the files as `list_files`
    sorts them, and the samples of each file in order. Length: unknown; streamed, or with `indexed=True` known; indexed.
    State: the number of a sample in its file, to which a resume seeks. Workers share the work by files, and a later
    `shuffle` shuffles the files too; with `indexed=True` they share it by samples. Errors name file and sample.

    Args:
        paths: a file, a folder, a glob, or a list of those; see `list_files`.
        pattern: in folders and globs, takes only files whose name matches this glob, so without `index.json`.
        recursive: in folders, takes the files in their subfolders as well.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        manifest: the path of a file that keeps the listing for later runs; see `list_files`.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        compression: of all files; "infer" goes by the end of each name; see `open_files`. `.mds.zstd` needs "zstd".
        path_column: the name of a further key with the path of the file.
        indexed: gives samples by position, by the heads of the files; see `parse_mds`.
        on_error: what happens to a sample that is damaged; see `map`.

    Raises:
        SourceError: a path is missing, stands for no file, or cannot be read.
        DataError: a file is no shard, is damaged, or has a column whose encoding is not read; see `parse_mds`.

    Example:
        >>> import feedpipe as fp, json, pathlib, struct
        >>> columns = {"column_names": ["t"], "column_encodings": ["str"], "column_sizes": [None]}
        >>> text = json.dumps({"format": "mds", "version": 2, **columns}).encode()
        >>> begin = 12 + len(text)
        >>> sample = struct.pack("<I", 3) + b"one"
        >>> data = struct.pack("<3I", 1, begin, begin + len(sample)) + text + sample
        >>> _ = pathlib.Path("shard.00000.mds").write_bytes(data)
        >>> list(fp.read_mds("."))
        [{'t': 'one'}]
        >>> len(fp.read_mds(".", indexed=True))
        1
    """
    listed = list_files(paths, pattern=pattern, recursive=recursive, filesystem=filesystem, manifest=manifest)
    return parse_mds(
        open_files(listed, compression=compression, filesystem=filesystem, cache=cache),
        path_column=path_column,
        indexed=indexed,
        on_error=on_error,
    )
