"""Files that are written: each gets its name when it is whole."""

from __future__ import annotations

import io
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..errors import SourceError
from .error_messages import describe
from .filesystem import locate, split_options

if TYPE_CHECKING:
    from pyarrow import NativeFile

TEMPORARY = ".tmp"
"""The end of a temporary name; it begins with a dot, so that no listing takes the file for data."""


class Output(io.RawIOBase):
    """A stream into a file; its errors name that."""

    def __init__(self, stream: NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            self._stream.write(data)
        except OSError as error:
            raise _failed(self._path, error) from error
        return len(data)


@contextmanager
def output(path: str, filesystem: object = None) -> Generator[Output]:
    """A stream into the file `path`, which is there when the block has ended without an error, whole, and else is not.

    Raises:
        SourceError: it cannot be written.
    """
    place = locate(path, filesystem)
    folder, slash, name = place.path.rpartition("/")
    temporary = f"{folder}{slash}.{name}.{uuid.uuid4().hex[:8]}{TEMPORARY}"
    try:
        stream = place.filesystem.open_output_stream(temporary, compression=None)
    except OSError as error:
        raise _failed(path, error) from error
    try:
        yield Output(stream, path)
        try:
            stream.close()
            place.filesystem.move(temporary, place.path)
        except OSError as error:
            raise _failed(path, error) from error
    except BaseException:
        # Closed first: what is left open would be completed when it is collected.
        with suppress(OSError):
            stream.close()
        with suppress(OSError):
            place.filesystem.delete_file(temporary)
        raise


def inside(folder: str, name: str, filesystem: object = None) -> str:
    """The path of what has that name in a folder, both as a user writes them."""
    path, options = (folder, "") if filesystem is not None else split_options(folder)
    return f"{path.rstrip('/')}/{name}{options}"


def folder_of(path: str, filesystem: object = None) -> str:
    """The folder of a file, both as a user writes them; undoes `inside`."""
    where, options = (path, "") if filesystem is not None else split_options(path)
    return (where.rpartition("/")[0] or ("/" if where.startswith("/") else ".")) + options


def _failed(path: str, error: OSError) -> SourceError:
    return SourceError(f"{path} cannot be written: {describe(error)}")
