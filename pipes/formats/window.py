"""`StreamWindow`: the bytes of a stream that a parser needs next; `ChunkSize`: how many to read."""

from __future__ import annotations

import io
from typing import BinaryIO

from ..errors import FeedpipeError, SourceError
from .streams import STREAM_ERRORS, stream_error

_NEAR_BYTES = 2**20  # so many are read, rather than sought
_SKIP_BYTES = 2**20  # read over at a time, if the stream cannot seek


class ChunkSize:
    """How many bytes the next chunk takes: few at first, for an early first row, then more, which is faster."""

    FIRST_BYTES, MAX_BYTES = 2**14, 2**20

    __slots__ = ("_size",)

    def __init__(self) -> None:
        self._size = self.FIRST_BYTES

    def next(self) -> int:
        size = self._size
        self._size = min(size * 4, self.MAX_BYTES)
        return size


class StreamWindow:
    """A part of a stream that only moves forward.

    Args:
        stream: of bytes. The window seeks in it if it can, else it reads over what comes before.
        name: the name of the file, for errors.

    Attributes:
        data: the bytes that were read and not left behind yet.
        offset: how many bytes of the stream come before them.
        ended: whether the stream ends behind them.
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

    def advance(self, offset: int) -> None:
        """Leave the bytes before `offset` behind.

        Raises:
            SourceError: the stream ends before `offset`, or cannot be read up to there.
            DataError: it cannot be decompressed up to there.
        """
        if offset < self.offset:
            raise AssertionError("a window only moves forward")
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
        """Read until there are `size` bytes, the stream ends, or it fails."""
        pieces = [self.data]
        length = len(self.data)
        bound = self._piece_bytes
        try:
            while length < size and not self.ended and self.error is None:
                piece = self._stream.read(min(size - length, bound - (self.offset + length) % bound))
                self.ended = not piece
                pieces.append(piece)
                length += len(piece)
        except FeedpipeError as error:
            self.error = error
        except STREAM_ERRORS as error:
            self.error = stream_error(error, self._name, self._stream, self.offset + length)
        if len(pieces) > 1:
            self.data = b"".join(pieces)
            if self.ended and self._seekable:
                self._check_end()

    def peek(self, place: int, size: int) -> bytes:
        """Some bytes further on, without leaving others behind; fewer at the end of the stream.

        Args:
            place: how many bytes of the window come before them. If they are far away, the stream must be able to seek.
            size: how many they are.

        Raises:
            SourceError, DataError: they cannot be read.
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
        """A stream knows the size that its file had when it was opened; a file that was cut since then ends before."""
        size = self._stream.seek(0, io.SEEK_END)
        if self.offset + len(self.data) < size:
            self.ended = False
            self.error = self._shortened(size)

    def _shortened(self, offset: int) -> SourceError:
        return SourceError(f"{self._name} has changed since it was listed or read: it ends before byte {offset}")
