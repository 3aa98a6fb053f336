"""`verify`: compares files with their manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ..core.progress_bar import ProgressBar
from ..errors import ArgumentTypeError, DataError, FeedpipeError, SourceError, call_site
from ..storage.file import File
from ..storage.filesystem import check_filesystem, describe, file_infos, locate
from ..storage.manifest import MANIFEST, Manifest, join_path, read_manifest
from ..storage.tasks import in_threads

_BATCH_FILES = 2**14  # files that are Python objects at the same time
_READ_BYTES = 2**20  # of one read


def verify(manifest: str | os.PathLike[str], *, filesystem: object = None, progress: bool = True) -> None:
    """Read all files of a manifest, and raise an error unless each has the size and checksum that the manifest says.

    Several files are read at a time. A file without a checksum, as in the manifest of a listing, is not read: only its
    size is looked up. The checksum is SHA-256, as `sha256sum` prints it.

    Args:
        manifest: the path or URL of a manifest of `write_parquet`, `write_tar` or `list_files`; or the folder that a
            writer has filled.
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
    path = _manifest_of(os.fspath(manifest), filesystem)
    expected = read_manifest(path, filesystem)
    first: FeedpipeError | None = None
    count = 0
    with ProgressBar("verify", len(expected.files), unit=" files", shown=None if progress else False) as bar:
        for problem in in_threads(_problem, _expected_files(expected, path, filesystem)):
            bar.update(1)
            if problem is not None:
                first = first or problem
                count += 1
    if first is not None:
        kind = SourceError if isinstance(first, SourceError) else DataError
        raise kind(f"{count} of {len(expected.files)} files are not as {path} says: {first}", at=call_site()) from first


def _manifest_of(path: str, filesystem: object) -> str:
    """The path of a manifest, or of the one in a folder."""
    place = locate(path, filesystem)
    with suppress(OSError):  # reading it says what is wrong
        if file_infos(place.filesystem, [place.path])[0].type.name == "Directory":
            return join_path(path, MANIFEST, filesystem)
    return path


class _ExpectedFile(NamedTuple):
    """A file with the size and checksum that the manifest has for it."""

    file: File
    bytes: int | None
    sha256: str | None


def _expected_files(manifest: Manifest, path: str, filesystem: object) -> Iterator[_ExpectedFile]:
    files = manifest.files.drop_columns(["path", "rows"]).append_column("path", manifest.paths(path, filesystem))
    for batch in files.to_batches(max_chunksize=_BATCH_FILES):
        for row in batch.to_pylist():
            yield _ExpectedFile(File(row["path"], filesystem=filesystem, compression=None), row["bytes"], row["sha256"])


def _problem(expected: _ExpectedFile) -> FeedpipeError | None:
    """The error of a file that is wrong."""
    file = expected.file
    try:
        if expected.sha256 is None:
            size, digest = file.size(), None
        else:
            size, digest = _read(file)
    except (SourceError, DataError) as error:
        return error
    except OSError as error:
        return SourceError(f"{file.name} cannot be read: {describe(error)}")
    if expected.bytes not in (None, size):
        return DataError(f"{file.name} has {size} bytes and should have {expected.bytes}")
    if digest != expected.sha256:
        return DataError(f"{file.name} has other content: its checksum is {digest} and should be {expected.sha256}")
    return None


def _read(file: File) -> tuple[int, str]:
    """Read a file, and return its size and checksum."""
    digest, size = hashlib.sha256(), 0
    with file.open(None) as stream:
        while data := stream.read(_READ_BYTES):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()
