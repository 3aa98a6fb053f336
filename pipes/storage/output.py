"""Files that are written: each gets its name when it is complete."""

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

TEMPORARY_SUFFIX = ".tmp"
"""The end of a temporary name. The name begins with a dot, so that no listing takes the file for data."""


class Output(io.RawIOBase):
    """A stream into a file, whose errors name the file."""

    def __init__(self, stream: NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            self._stream.write(data)
        except OSError as error:
            raise _write_error(self._path, error) from error
        return len(data)


@contextmanager
def open_output(path: str, filesystem: object = None) -> Generator[Output]:
    """Opens a stream into the file `path`. The file appears, complete, when the block ends without an error.

    Raises:
        SourceError: it cannot be written.
    """
    place = locate(path, filesystem)
    folder, slash, name = place.path.rpartition("/")
    temporary = f"{folder}{slash}.{name}.{uuid.uuid4().hex[:8]}{TEMPORARY_SUFFIX}"
    try:
        stream = place.filesystem.open_output_stream(temporary, compression=None)
    except OSError as error:
        raise _write_error(path, error) from error
    try:
        yield Output(stream, path)
        try:
            stream.close()
            place.filesystem.move(temporary, place.path)
        except OSError as error:
            raise _write_error(path, error) from error
    except BaseException:
        # Close first: the garbage collector would complete an open upload.
        with suppress(OSError):
            stream.close()
        with suppress(OSError):
            place.filesystem.delete_file(temporary)
        raise


def join_path(folder: str, name: str, filesystem: object = None) -> str:
    """Adds a name to the path or URL of a folder, before its options."""
    path, options = (folder, "") if filesystem is not None else split_options(folder)
    return f"{path.rstrip('/')}/{name}{options}"


def folder_of(path: str, filesystem: object = None) -> str:
    """The path or URL of the folder of a file; undoes `join_path`."""
    plain, options = (path, "") if filesystem is not None else split_options(path)
    return (plain.rpartition("/")[0] or ("/" if plain.startswith("/") else ".")) + options


def _write_error(path: str, error: OSError) -> SourceError:
    return SourceError(f"{path} cannot be written: {describe(error)}")
