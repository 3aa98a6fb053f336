"""`verify`: compares files with their manifest."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import partial
from typing import Any

from ..core.progress_bar import ProgressBar
from ..errors import ArgumentTypeError, DataError, FeedpipeError, SourceError, call_site
from ..storage.file import File
from ..storage.filesystem import check_filesystem, describe, file_infos, locate
from ..storage.manifest import MANIFEST, join_path, read_manifest
from ..storage.tasks import in_threads


def verify(manifest: str | os.PathLike[str], *, filesystem: object = None, progress: bool = True) -> None:
    """Read all files of a manifest, and raise an error unless each has the size and checksum that the manifest says.

    Several files are read at a time. The checksum is SHA-256, as `sha256sum` prints it.

    Args:
        manifest: the path or URL of a manifest of a writer, such as `write_parquet`; or the folder that it has filled.
        filesystem: a pyarrow or fsspec file system for the manifest and its files; without it, they are local paths or
            URLs.
        progress: on a terminal, shows the number of files.

    Raises:
        SourceError: the manifest cannot be read, or the first wrong file is missing or cannot be read.
        DataError: the manifest is damaged, or the first wrong file has another size or checksum. Both errors say how
            many files are wrong.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> pipe = fp.from_sequence(range(5)).map(lambda i: {"id": i})
        >>> manifest = fp.write_parquet(pipe, "numbers")
        >>> fp.verify(manifest)
        >>> file = pathlib.Path("numbers/part-00000.parquet")
        >>> _ = file.write_bytes(file.read_bytes()[:-1])
        >>> fp.verify(manifest)
        Traceback (most recent call last):
        feedpipe.errors.DataError: 1 of 1 files are not as numbers/_manifest.jsonl says: numbers/part-00000.parquet ...
    """
    if not isinstance(manifest, (str, os.PathLike)):
        raise ArgumentTypeError(f"`manifest` must be a path but got: {manifest!r}")
    check_filesystem(filesystem)
    path = os.fspath(manifest)
    place = locate(path, filesystem)
    with suppress(OSError):  # reading it says what is wrong
        if file_infos(place.filesystem, [place.path])[0].type.name == "Directory":
            path = join_path(path, MANIFEST, filesystem)
    found = read_manifest(path, filesystem)
    expected = zip(found.paths(path, filesystem), found.files["bytes"], found.files["sha256"], strict=True)
    first: FeedpipeError | None = None
    count = 0
    with ProgressBar("verify", len(found.files), unit=" files", shown=None if progress else False) as bar:
        for problem in in_threads(partial(_problem, filesystem=filesystem), expected):
            bar.update(1)
            if problem is not None:
                first = first or problem
                count += 1
    if first is not None:
        kind = SourceError if isinstance(first, SourceError) else DataError
        raise kind(f"{count} of {len(found.files)} files are not as {path} says: {first}", at=call_site()) from first


def _problem(expected: tuple[Any, Any, Any], filesystem: object) -> FeedpipeError | None:
    """The error of a file that is not as its manifest says, given its path, size and checksum."""
    path, size, checksum = (value.as_py() for value in expected)
    file = File(path, filesystem=filesystem, compression=None)
    try:
        with file.open(None) as stream:
            digest, found = hashlib.file_digest(stream, "sha256").hexdigest(), stream.tell()
    except (SourceError, DataError) as error:
        return error
    except OSError as error:
        return SourceError(f"{file.name} cannot be read: {describe(error)}")
    if found != size:
        return DataError(f"{file.name} has {found} bytes and should have {size}")
    if digest != checksum:
        return DataError(f"{file.name} has other content: its checksum is {digest} and should be {checksum}")
    return None
