"""Streams of bytes: their errors, and the window that a parser reads through."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import BinaryIO

from ..errors import DataError, FeedpipeError, SourceError

STREAM_ERRORS = (OSError, ValueError, EOFError)
"""The exceptions that reading a stream may raise, those of decompressors and some of feedpipe's own included."""


MAX_ROW_BYTES = 2**31
"""The limit of a row that a parser makes: a damaged file, or a small one that is compressed, may claim any size."""
_MAX_UNPACKED_BYTES, _MAX_RATIO = 2**28, 32
MAX_CONTENT_BYTES = 2**10
"""The part of a malformed record that its report keeps."""


def unpacked_limit(stored: int) -> int:
    """The bytes that may be made at once of `stored` bytes of a file: a small file may unpack to any size.

    Data that is no bomb may take much memory, or be packed tightly, but not both.
    """
    return min(MAX_ROW_BYTES, max(_MAX_UNPACKED_BYTES, _MAX_RATIO * stored))


def unpacked_problem(size: int, stored: int) -> str | None:
    """What is wrong with so many bytes, made of `stored` bytes of a file; None if nothing is."""
    if size <= unpacked_limit(stored):
        return None
    return (
        f"{size >> 20} MiB or more unpack from {stored} bytes: the file is damaged, or made to fill the memory; if it "
        "is neither, store it without compression"
    )


class Unpacking:
    """Watches what a stream of `File.stream` makes of the bytes of its file, if it decompresses them."""

    def __init__(self, stream: object) -> None:
        self._packed: BinaryIO | None = getattr(stream, "packed", None)
        self.begin()

    def begin(self) -> None:
        """Count from here on."""
        self._start = 0 if self._packed is None else self._packed.tell()

    def problem(self, size: int) -> str | None:
        """What is wrong with `size` bytes, made since `begin`; None if nothing is."""
        if self._packed is None or size <= _MAX_UNPACKED_BYTES:
            return None
        return unpacked_problem(size, self._packed.tell() - self._start)


def stream_error(error: Exception, name: str, stream: BinaryIO, offset: int) -> FeedpipeError:
    """Translate one of `STREAM_ERRORS` but our own, raised after `offset` bytes of the content."""
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


def seal_of(footer: bytes, size: int) -> int:
    """A number that changes if a file of `size` bytes with this footer does."""
    digest = hashlib.blake2b(footer + size.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


_NEAR_BYTES = 2**20  # read rather than sought
_SKIP_BYTES = 2**20  # read over at a time, if the stream cannot seek


class ChunkSize:
    """The size of the next chunk in bytes: small at first, for an early first row, then larger, which is faster."""

    FIRST_BYTES, MAX_BYTES = 2**14, 2**20

    __slots__ = ("_size",)

    def __init__(self) -> None:
        self._size = self.FIRST_BYTES

    def next(self) -> int:
        size = self._size
        self._size = min(size * 4, self.MAX_BYTES)
        return size


class StreamWindow:
    """A part of a stream that only moves forward. It seeks if the stream can, else it reads over what comes before.

    Attributes:
        data: the bytes that were read and not left behind yet.
        offset: the number of bytes of the stream before them.
        ended: whether the stream ends after them.
        error: the error of reading what follows them; a parser raises it once it has parsed these bytes.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.data = b""
        self.offset = 0
        self.ended = False
        self.error: FeedpipeError | None = None
        self._stream = stream
        self._name = name
        self._seekable = stream.seekable()
        # A decompressor that fails drops the output of that call. So each call asks for little, and always for the same
        # pieces: the rows before an error then do not depend on how much is read at a time.
        self._piece_bytes = 2**30 if self._seekable else 2**12
        self._unpacking = Unpacking(stream)

    def advance(self, offset: int) -> None:
        """Leave the bytes before `offset` behind. Raise the error if the stream fails or ends before it."""
        if offset < self.offset:
            raise AssertionError("a window only moves forward")
        self._unpacking.begin()
        distance = offset - self.offset
        if distance > len(self.data) and self.error is None and not self.ended:
            if self._seekable:
                self.seek(offset)
            else:
                self._read_over(offset)
            return
        if distance > len(self.data):
            raise self.error or self._shortened(offset)
        self.data = self.data[distance:]
        self.offset = offset

    def seek(self, offset: int) -> None:
        """Go to `offset` in a stream that can seek, and read nothing yet."""
        size = self._stream.seek(0, io.SEEK_END)
        if offset > size:
            raise self._shortened(offset)
        self._stream.seek(offset)
        self.data, self.offset = b"", offset

    def fill(self, size: int) -> None:
        """Read until there are `size` bytes, the stream ends, or it fails; more than `MAX_ROW_BYTES` are an error."""
        if size > MAX_ROW_BYTES:
            self.error = self.error or DataError(
                f"{self._name}, byte {self.offset}: what begins here would take {size} bytes, and the limit of a row "
                f"is {MAX_ROW_BYTES}; is the file damaged?"
            )
            return
        pieces = [self.data]
        length = len(self.data)
        bound = self._piece_bytes
        try:
            while length < size and not self.ended and self.error is None:
                piece = self._stream.read(min(size - length, bound - (self.offset + length) % bound))
                self.ended = not piece
                pieces.append(piece)
                length += len(piece)
                if problem := self._unpacking.problem(length):
                    self.error = DataError(f"{self._name}, byte {self.offset}: {problem}")
        except FeedpipeError as error:
            self.error = error
        except STREAM_ERRORS as error:
            self.error = stream_error(error, self._name, self._stream, self.offset + length)
        if len(pieces) > 1:
            self.data = b"".join(pieces)
            if self.ended and self._seekable:
                self._check_end()

    def scan(self, at: int, stop: int, overlap: int) -> Iterator[int]:
        """Fill the window from `at` on, again and again up to `stop`, and give its offset.

        Each window begins with the last `overlap` bytes of the one before. An error of the stream is raised.
        """
        while at < stop:
            self.advance(at)
            self.fill(ChunkSize.FIRST_BYTES)
            yield at
            if self.error is not None:
                raise self.error
            if self.ended:
                return
            at += len(self.data) - overlap

    def peek(self, place: int, size: int) -> bytes:
        """Read bytes from a place in the window on without leaving others behind; fewer at the end of the stream.

        If they are far away, the stream must be able to seek. If they cannot be read, raise the error.
        """
        if place + size <= _NEAR_BYTES:
            self.fill(place + size)
            if self.error is not None and place + size > len(self.data):
                raise self.error
            return self.data[place : place + size]
        at = self.offset + len(self.data)
        try:
            self._stream.seek(self.offset + place)
            data = self._stream.read(size)
            self._stream.seek(at)
        except FeedpipeError:
            raise
        except STREAM_ERRORS as error:
            raise stream_error(error, self._name, self._stream, self.offset + place) from error
        return data

    def _read_over(self, offset: int) -> None:
        while self.offset + len(self.data) < offset:
            self.offset += len(self.data)
            self.data = b""
            self.fill(min(_SKIP_BYTES, offset - self.offset))
            if self.error is not None:
                raise self.error
            if self.ended and self.offset + len(self.data) < offset:
                raise self._shortened(offset)
        self.data = self.data[offset - self.offset :]
        self.offset = offset

    def _check_end(self) -> None:
        """Notice a file that was cut since it was opened: the stream knows the size that it had then."""
        size = self._stream.seek(0, io.SEEK_END)
        if self.offset + len(self.data) < size:
            self.ended = False
            self.error = self._shortened(size)

    def _shortened(self, offset: int) -> SourceError:
        return SourceError(f"{self._name} has changed since it was listed or read: it ends before byte {offset}")
