"""Streams of bytes: what opens them, how their tail is read, and the errors of reading them."""

from __future__ import annotations

import io
from typing import BinaryIO, Protocol

from ..errors import DataError, FeedpipeError, SourceError

STREAM_ERRORS = (OSError, ValueError, EOFError)
"""The exceptions that reading a stream may raise, those of decompressors and some of feedpipe's own included."""


class OpenableFile(Protocol):
    """A handle on a file."""

    @property
    def path(self) -> str:
        """The path or URL."""
        ...

    @property
    def name(self) -> str:
        """The path as errors show it."""
        ...

    def open(self, compression: str | None, /) -> io.BufferedReader:
        """Open a stream of the bytes, decompressed; with None, of the bytes as they are."""
        ...


def stream_error(error: Exception, name: str, stream: BinaryIO, offset: int) -> FeedpipeError:
    """Translate an error of reading a stream.

    Args:
        error: one of `STREAM_ERRORS`, but none of feedpipe's own.
        name: the name of the file.
        stream: the stream that failed.
        offset: how many bytes of the content were read before.
    """
    # An error of the operating system has a number. A decompressor's error has none, and decompressors cannot seek.
    if isinstance(error, OSError) and (error.errno or stream.seekable()):
        return SourceError(f"{name} cannot be read after byte {offset}: {error.strerror or error}")
    what = "is damaged or cut short" if offset else "is not compressed in that way, or is damaged"
    return DataError(
        f"{name} {what}: decompression failed after {offset} bytes of its content: {error}; "
        "`open_files(compression=...)` sets how files are decompressed"
    )


def read_tail(stream: BinaryIO, name: str, size: int, count: int) -> bytes:
    """Read the last `count` bytes of a file of `size` bytes, or the whole file if it is shorter."""
    stream.seek(max(0, size - count))
    data = stream.read(min(size, count))
    if len(data) < min(size, count):
        raise SourceError(f"{name} became shorter while its footer was read")
    return data
