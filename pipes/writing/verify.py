"""`verify`: whether files are as their manifest says."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import ArgumentTypeError, DataError, FeedpipeError, SourceError, with_call_site
from ..storage.error_messages import describe
from ..storage.file import File
from ..storage.filesystem import check_filesystem
from ..storage.manifest import Manifest, read_manifest
from ..storage.tasks import in_threads

_BATCH = 2**14  # lines of the manifest that stand as Python objects at a time
_PIECE = 2**20  # bytes read at a time


class _Expected(NamedTuple):
    """A file, and what the manifest says of it."""

    file: File
    bytes: int | None
    sha256: str | None


def verify(manifest: str | os.PathLike[str], *, filesystem: object = None) -> None:
    """Read the files of a manifest, and return if each is there with the bytes and the checksum that stand in it.

    Files are read whole, some at a time; those without a checksum, as in the manifest of a listing, are only looked up
    for their size. The checksum is SHA-256, so `sha256sum` gives the same.

    Args:
        manifest: the path or URL of a manifest: of `write_parquet`, `write_tar` or `list_files`.
        filesystem: a pyarrow or fsspec file system that all of it is on; else paths are local or URLs.

    Raises:
        SourceError: the manifest, or the first file that is not as it should be, is missing or cannot be read.
        DataError: the manifest is damaged, or the first file that is not as it should be has other bytes. Both say how
            many files are not as they should be.

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
        raise ArgumentTypeError(with_call_site(f"`manifest` must be a path but got: {manifest!r}"))
    check_filesystem(filesystem)
    path = os.fspath(manifest)
    read = read_manifest(path, filesystem)
    first: FeedpipeError | None = None
    count = 0
    for problem in in_threads(_problem, _expected(read, path, filesystem)):
        if problem is not None:
            first = first or problem
            count += 1
    if first is not None:
        kind = SourceError if isinstance(first, SourceError) else DataError
        raise kind(with_call_site(f"{count} of {len(read.files)} files are not as {path} says: {first}")) from first


def _expected(manifest: Manifest, path: str, filesystem: object) -> Iterator[_Expected]:
    files = manifest.files.drop_columns(["path", "rows"]).append_column("path", manifest.paths(path, filesystem))
    for batch in files.to_batches(max_chunksize=_BATCH):
        for row in batch.to_pylist():
            yield _Expected(File(row["path"], filesystem=filesystem, compression=None), row["bytes"], row["sha256"])


def _problem(expected: _Expected) -> FeedpipeError | None:
    """What is wrong with a file."""
    file = expected.file
    try:
        if expected.sha256 is None:
            size, digest = file.size(), None
        else:
            size, digest = _read(file)
    except (SourceError, DataError) as error:
        return error
    except OSError as error:
        return SourceError(f"{file.path} cannot be read: {describe(error)}")
    if expected.bytes not in (None, size):
        return DataError(f"{file.path} has {size} bytes and should have {expected.bytes}")
    if digest != expected.sha256:
        return DataError(f"{file.path} has other content: its checksum is {digest} and should be {expected.sha256}")
    return None


def _read(file: File) -> tuple[int, str]:
    """How many bytes a file has, and their checksum."""
    digest, size = hashlib.sha256(), 0
    with file.open(None) as stream:
        while data := stream.read(_PIECE):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()
