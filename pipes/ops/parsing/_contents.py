"""Whole files, as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from ...formats.text.streams import FAILURES, broken
from ...storage.file import WHOLE, File
from ...storage.listing import Listing
from ...storage.threads import in_threads

if TYPE_CHECKING:
    from ._opened import Opened


def contents(files: Sequence[File], opened: Opened | None = None, *, threads: bool) -> Iterator[bytes]:
    """The bytes of each file; of an only one from `opened`, where that has been begun.

    Of files that do not lie on this machine some are fetched at a time, if `threads` may.
    """
    if opened is not None:
        return iter([content(opened.file, opened)])
    if threads and files and not files[0].is_near():
        return in_threads(content, files)
    return map(content, files)


def listed_files(listing: Listing, filesystem: object) -> list[File]:
    """Handles on the files of a listing, whose bytes are taken as they are."""
    paths, sizes = cast("list[str]", listing.paths.to_pylist()), cast("list[int]", listing.sizes.to_pylist())
    return [File(path, filesystem, None, None if size < 0 else size) for path, size in zip(paths, sizes, strict=True)]


def content(file: File, opened: Opened | None = None) -> bytes:
    """The bytes of a file, decompressed; from `opened`, where that has been begun.

    Raises:
        SourceError: it cannot be opened or read.
        DataError: its compression is damaged.
    """
    with file.stream(part=WHOLE) if opened is None else opened.result() as stream:
        try:
            return stream.read()
        except FAILURES as error:
            raise broken(stream, file.name, error, 0) from error
