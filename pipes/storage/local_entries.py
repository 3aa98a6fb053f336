"""Entries of local folders that cannot be read as files, and what they are."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import MissingError, SourceError

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FolderEntry(NamedTuple):
    """An entry of a folder.

    Attributes:
        name: in its folder.
        is_folder: whether it is a folder, or a link to one.
        size: in bytes, or -1 if the storage does not say; None if it is neither a file nor a folder.
    """

    name: str
    is_folder: bool
    size: int | None


def scan(folder: str) -> Iterator[FolderEntry]:
    """The entries of a local folder, one at a time: pyarrow would hold an object for each of a million files."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    yield FolderEntry(entry.name, True, None)
                else:
                    yield FolderEntry(entry.name, False, entry.stat().st_size if entry.is_file() else None)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                yield FolderEntry(entry.name, False, None)


def check_readable(path: str) -> None:
    """Raises an error that says what a local entry is, if it is neither a file nor a folder.

    Opening a named pipe would wait for a writer, and a device may never end. If there is no entry of that name, or it
    may not be looked at, nothing happens.

    Raises:
        MissingError: it is a link to nothing.
        SourceError: it is a link to itself, a named pipe, a socket or a device.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SourceError(f"{path} is a link that leads back to itself; remove it") from error
        if os.path.islink(path) and isinstance(error, FileNotFoundError):
            raise MissingError(f"{path} is a link to a file that is not there") from error
        return
    if kind is not None:
        raise SourceError(f"{path} is {kind}, and only files and folders can be read; write its bytes to a file")
