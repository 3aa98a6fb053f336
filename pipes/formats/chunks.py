"""Chunks: a stream of text in pieces that end where a record ends."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from ..cursor import Json
from ..errors import DataError, SourceError
from ..rows import RowList

_NEWLINE = 10
BOM = b"\xef\xbb\xbf"
LONGEST = 2**27
"""Bytes in which a record must end; beyond, the file is taken for something else."""


class Place(NamedTuple):
    """Where in a file: bytes before it (of the content, where the file is compressed), and the line, counted from 1."""

    offset: int = 0
    line: int = 1


class Chunk(NamedTuple):
    """Whole records, as bytes."""

    data: bytes
    at: Place
    end: Place
    last: bool
    """Whether the file ends here; only then may the last record lack its newline."""

    def place(self, start: int) -> Place:
        """Where byte `start` of the chunk is in the file."""
        return Place(self.at.offset + start, self.at.line + self.data.count(b"\n", 0, start))


class Growth:
    """The size of chunks: small at first, so that the first row comes at once, then large, which is faster."""

    FIRST, MOST = 2**14, 2**20

    __slots__ = ("_size",)

    def __init__(self) -> None:
        self._size = self.FIRST

    def next(self) -> int:
        size = self._size
        self._size = min(size * 4, self.MOST)
        return size


Parse = Callable[[Chunk], tuple[RowList, "DataError | None"]]
"""The rows of a chunk up to the first malformed one, and what is wrong with that."""


F = TypeVar("F", covariant=True)


class Format(Protocol[F]):
    """What a format says of itself; a frozen value that holds the user's options, and names and types once fixed."""

    kind: ClassVar[str]
    """The name of the chain function."""

    def fix(self, readers: Iterator[ChunkReader]) -> F:
        """The format with names and types fixed, from the first file that has rows."""
        ...

    def types(self) -> Json:
        """The names and types that were fixed, in plain values."""
        ...

    def cut(self, data: bytes) -> int:
        """Where the last whole record of `data` ends; 0 if none does."""
        ...

    def begin(self, reader: ChunkReader) -> tuple[Place, Parse]:
        """Where the records of a file begin, and how to read them."""
        ...

    def lines(self, chunk: Chunk) -> list[int]:
        """The line of each row of a chunk."""
        ...


def whole_lines(data: bytes) -> int:
    """Where the last whole line of `data` ends."""
    return data.rfind(b"\n") + 1


class ChunkReader:
    """Reads chunks from a stream.

    Args:
        stream: of bytes; a place in it is found by seeking, or where it cannot seek by reading over.
        name: the file's, for errors.
        cut: where the last whole record of some bytes ends; 0 if none does.
    """

    def __init__(self, stream: BinaryIO, name: str, cut: Callable[[bytes], int] = whole_lines) -> None:
        self.name = name
        self._stream = stream
        self._cut = cut
        self._seekable = stream.seekable()
        # A decompressor that fails drops what it has made in that call. So it is asked for little at a time, and always
        # for the same pieces: the rows before an error do not depend on the size of chunks.
        self._piece = 2**30 if self._seekable else 2**12
        self._data = b""  # what has been read and not left behind; it begins at `_offset`
        self._offset = 0
        self._ended = False
        self._failure: Exception | None = None

    def chunks(self, at: Place, growth: Growth) -> Iterator[Chunk]:
        """All that follows `at`. Where the stream breaks, the whole records before come first, then the error."""
        while (chunk := self.peek(at, growth.next())) is not None:
            yield chunk
            at = chunk.end

    def peek(self, at: Place, size: int) -> Chunk | None:
        """The chunk of about `size` bytes that begins at `at`, at least one record; None at the end."""
        offset, line = at
        self._go(offset)
        if offset == 0 and self._begins_with_bom():
            offset = len(BOM)
            self._go(offset)
        while True:
            self._fill(size)
            length = len(self._data)
            whole = length if self._ended else self._cut(self._data)
            if whole or self._ended or self._failure is not None:
                break
            if length >= LONGEST:
                raise DataError(
                    f"{self.name}, line {line}: no end of the record that begins here within {length >> 20} MiB; "
                    "is it a text file, and is each quote closed?"
                )
            size = 2 * length
        if not whole:
            if self._failure is not None:
                raise self._failure
            return None
        data = self._data[:whole]
        # NumPy counts with vector instructions, `bytes.count` does not: 10 % of the time of parsing numbers.
        lines = int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE))
        end = Place(offset + whole, line + lines)
        return Chunk(data, Place(offset, line), end, self._ended)

    def _begins_with_bom(self) -> bool:
        self._fill(len(BOM))
        return self._data.startswith(BOM)

    def _go(self, offset: int) -> None:
        if offset < self._offset:
            raise AssertionError("a reader goes forward only")
        ahead = offset - self._offset
        if ahead > len(self._data) and self._failure is None and not self._ended:
            if self._seekable:
                self._seek(offset)
            else:
                self._read_over(offset)
            return
        if ahead > len(self._data):
            raise self._failure or self._shorter(offset)
        self._data = self._data[ahead:]
        self._offset = offset

    def _seek(self, offset: int) -> None:
        size = self._stream.seek(0, io.SEEK_END)
        if offset > size:
            raise self._shorter(offset)
        self._stream.seek(offset)
        self._data, self._offset = b"", offset

    def _read_over(self, offset: int) -> None:
        while self._offset + len(self._data) < offset:
            self._offset += len(self._data)
            self._data = b""
            self._fill(min(Growth.MOST, offset - self._offset))
            if self._failure is not None:
                raise self._failure
            if self._ended and self._offset + len(self._data) < offset:
                raise self._shorter(offset)
        self._data = self._data[offset - self._offset :]
        self._offset = offset

    def _shorter(self, offset: int) -> SourceError:
        return SourceError(f"{self.name} has changed since the state was taken: it ends before byte {offset}")

    def _fill(self, size: int) -> None:
        """Reads until there are `size` bytes, or the end, or a failure."""
        parts = [self._data]
        length = len(self._data)
        try:
            while length < size and not self._ended and self._failure is None:
                part = self._stream.read(min(size - length, self._piece - (self._offset + length) % self._piece))
                self._ended = not part
                parts.append(part)
                length += len(part)
        except (OSError, ValueError, EOFError) as error:
            self._failure = self._broken(error, self._offset + length)
        if len(parts) > 1:
            self._data = b"".join(parts)

    def _broken(self, error: Exception, offset: int) -> Exception:
        # An error of the operating system has a number; one of a decompressor has none, and one of S3 neither.
        remote = self._seekable or str(error).startswith("AWS Error")
        if isinstance(error, OSError) and (error.errno or remote):
            made: Exception = SourceError(f"{self.name} cannot be read after byte {offset}: {error.strerror or error}")
        else:
            what = "is damaged or cut short" if offset else "is not compressed in that way, or is damaged"
            made = DataError(
                f"{self.name} {what}: decompression failed after {offset} bytes of its content: {error}; "
                "`open_files(compression=...)` names the way"
            )
        made.__cause__ = error
        return made


def first_failing(ends: list[int], read: Callable[[int], object]) -> int:
    """Which record cannot be read, given where each ends and what reads the bytes up to some end; all together fail."""
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        try:
            read(ends[middle])
            low = middle + 1
        except ValueError:  # Arrow's ArrowInvalid is one
            high = middle
    return low


def brief(data: bytes | str, most: int = 60) -> str:
    """A value as an error shows it."""
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    text = text.rstrip("\r\n")
    return repr(text if len(text) <= most else text[: most - 3] + "...")
