"""What goes wrong in a stream of bytes, said as errors of files."""

from __future__ import annotations

from typing import BinaryIO

from ...errors import DataError, FeedpipeError, SourceError

FAILURES = (OSError, ValueError, EOFError)
"""What a stream raises that cannot be read on; a decompressor's errors are among them."""


def broken(stream: BinaryIO, name: str, error: Exception, offset: int) -> FeedpipeError:
    """The error to raise when the stream of a file failed after `offset` bytes of its content; one of ours stays."""
    if isinstance(error, FeedpipeError):
        raise error
    # An error of the operating system has a number; one of a decompressor, which cannot seek, has none.
    if isinstance(error, OSError) and (error.errno or stream.seekable()):
        made: FeedpipeError = SourceError(f"{name} cannot be read after byte {offset}: {error.strerror or error}")
    else:
        what = "is damaged or cut short" if offset else "is not compressed in that way, or is damaged"
        made = DataError(
            f"{name} {what}: decompression failed after {offset} bytes of its content: {error}; "
            "`open_files(compression=...)` names the way"
        )
    return made


def tail(stream: BinaryIO, name: str, size: int, count: int) -> bytes:
    """The last `count` bytes of a file of `size`, or all."""
    stream.seek(max(0, size - count))
    data = stream.read(min(size, count))
    if len(data) < min(size, count):
        raise SourceError(f"{name} became shorter while its footer was read")
    return data
