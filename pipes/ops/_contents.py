"""Whole files, as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from ..formats.streams import FAILURES, broken
from ..storage.file import File
from ..storage.listing import Listing
from ..storage.threads import in_threads


def contents(files: Sequence[File], *, threads: bool) -> Iterator[bytes]:
    """The bytes of each file. Of files that do not lie on this machine some are fetched at a time, if `threads` may."""
    if threads and files and not files[0].is_near():
        return in_threads(content, files)
    return map(content, files)


def listed_files(listing: Listing, filesystem: object) -> list[File]:
    """Handles on the files of a listing, whose bytes are taken as they are."""
    paths, sizes = cast("list[str]", listing.paths.to_pylist()), cast("list[int]", listing.sizes.to_pylist())
    return [File(path, filesystem, None, None if size < 0 else size) for path, size in zip(paths, sizes, strict=True)]


def content(file: File) -> bytes:
    """The bytes of a file, decompressed.

    Raises:
        SourceError: it cannot be opened or read.
        DataError: its compression is damaged.
    """
    with file.stream(part=None if file.listed is None else range(file.listed)) as stream:
        try:
            return stream.read()
        except FAILURES as error:
            raise broken(stream, file.name, error, 0) from error
