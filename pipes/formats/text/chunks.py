"""Chunks: a stream of text in pieces that end where a record ends."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from ...core.cursor import Json
from ...core.rows import BlockRows
from ...errors import DataError, Origin, SourceError
from .streams import FAILURES, broken

_NEWLINE = 10
BOM = b"\xef\xbb\xbf"
LONGEST = 2**27
"""Bytes in which a record must end; beyond, the file is taken for something else."""
COUNTED = 2**28
"""Bytes before a range in which an error has lines counted, at most: they are read for that alone."""
TO_END = 2**63 - 1
"""Where a range stops that goes to the end of its file, wherever that is."""


class Place(NamedTuple):
    """Where in a file: bytes before it (of the content, where the file is compressed), and the line.

    Lines are counted from 1, and in a range from its beginning: only a `ChunkReader` knows those before.
    """

    offset: int = 0
    line: int = 1


class Chunk(NamedTuple):
    """Whole records, as bytes."""

    data: bytes
    at: Place
    end: Place
    last: bool
    """Whether the range ends here; only then may the last record lack its newline."""

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


Parse = Callable[[Chunk, int], tuple[BlockRows, "DataError | None"]]
"""The rows of a chunk up to the first malformed one, and what is wrong with that; given the rows of the file before."""


F = TypeVar("F", covariant=True)


class Format(Protocol[F]):
    """What a format says of itself; a frozen value that holds the user's options, and names and types once fixed."""

    kind: ClassVar[str]
    """The name of the chain function."""

    @property
    def unify_schemas(self) -> bool:
        """Whether the columns are those of all files together."""
        ...

    def head(self, reader: ChunkReader) -> object:
        """What the beginning of a file says of its columns."""
        ...

    def fix(self, heads: Iterable[Any], paths: Iterable[str]) -> F:
        """The format with names and types fixed, by what files say, one after the other, and the names of folders."""
        ...

    def uncut(self) -> str | None:
        """Why files are not cut into ranges; None where they are, as each line break ends a record."""
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


def line_breaks(data: bytes) -> int:
    """How many there are."""
    # NumPy counts with vector instructions, `bytes.count` does not: 10 % of the time of parsing numbers.
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE))


def whole_lines(data: bytes) -> int:
    """Where the last whole line of `data` ends."""
    return data.rfind(b"\n") + 1


class ChunkReader:
    """Reads chunks from a stream, or from a range of it: the records that begin there.

    Args:
        stream: of bytes; a place in it is found by seeking, or where it cannot seek by reading over.
        name: the file's, for errors.
        cut: where the last whole record of some bytes ends; 0 if none does.
        start, stop: bytes of the range; where it is not the whole, each line break ends a record, and streams can seek.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        cut: Callable[[bytes], int] = whole_lines,
        start: int = 0,
        stop: int = TO_END,
    ) -> None:
        self.name = name
        self._stream = stream
        self._cut = cut
        self._start = start
        self._stop = stop
        self._lines: int | None = None if start else 0  # before the range, once they are counted
        self._seekable = stream.seekable()
        # A decompressor that fails drops what it has made in that call. So it is asked for little at a time, and always
        # for the same pieces: the rows before an error do not depend on the size of chunks.
        self._piece = 2**30 if self._seekable else 2**12
        self._data = b""  # what has been read and not left behind; it begins at `_offset`
        self._offset = 0
        self._ended = False
        self._failure: Exception | None = None

    def whole(self) -> ChunkReader:
        """A reader of the whole file, to be used before this one."""
        if not self._start and self._stop == TO_END:
            return self
        return ChunkReader(self._stream, self.name, self._cut)

    def first(self, begin: Place) -> Place:
        """Where the first record that begins in the range does, given where those of the file begin.

        That is behind the first line break at or after the byte before the range.
        """
        if self._start <= begin.offset:
            return Place(begin.offset, begin.line - self._lines_before())
        at = self._start - 1
        self._seek(at)
        while at < self._stop - 1:
            self._go(at)
            self._fill(Growth.FIRST)
            if found := self._data.find(b"\n") + 1:
                return Place(at + found, 1 if at + found == self._start else 2)
            if self._failure is not None:
                raise self._failure
            if self._ended:
                break
            at += len(self._data)
        return Place(self._stop)

    def chunks(self, at: Place, growth: Growth) -> Iterator[Chunk]:
        """All that follows `at`. Where the stream breaks, the whole records before come first, then the error."""
        while at.offset < self._stop and (chunk := self.peek(at, growth.next())) is not None:
            yield chunk
            at = chunk.end

    def origins(self, chunk: Chunk, lines: Sequence[int]) -> list[Origin | None]:
        """Where the rows of a chunk come from that begin in such lines; their bytes, where lines are not counted."""
        if self._start <= COUNTED:
            shift = self._lines_before()
            return [Origin(self.name, shift + line, "line") for line in lines]
        begins = [0, *(np.flatnonzero(np.frombuffer(chunk.data, np.uint8) == _NEWLINE) + 1).tolist()]
        return [Origin(self.name, chunk.at.offset + begins[line - chunk.at.line], "byte") for line in lines]

    def where(self, place: Place) -> str:
        """`place`, for an error."""
        if self._start > COUNTED:
            return f"{self.name}, byte {place.offset} (lines are counted in the first {COUNTED >> 20} MiB of a file)"
        return f"{self.name}, line {self._lines_before() + place.line}"

    def peek(self, at: Place, size: int) -> Chunk | None:
        """The chunk of about `size` bytes that begins at `at`, at least one record; None at the end."""
        offset, line = at
        size = min(size, max(Growth.FIRST, self._stop - offset))
        self._go(offset)
        if offset == 0 and self._begins_with_bom():
            offset = len(BOM)
            self._go(offset)
        while True:
            self._fill(size)
            length = len(self._data)
            whole = self._whole_records()
            if whole or self._ended or self._failure is not None:
                break
            if length >= LONGEST:
                raise DataError(
                    f"{self.where(at)}: no end of the record that begins here within {length >> 20} MiB; "
                    "is it a text file, and is each quote closed?"
                )
            size = 2 * length
        if not whole:
            if self._failure is not None:
                raise self._failure
            return None
        data = self._data[:whole]
        end = Place(offset + whole, line + line_breaks(data))
        return Chunk(data, Place(offset, line), end, self._ended or end.offset >= self._stop)

    def _whole_records(self) -> int:
        """Where the last whole record of the range ends in what is held; 0 if none does."""
        whole = len(self._data) if self._ended else self._cut(self._data)
        if self._offset + whole < self._stop:
            return whole
        end = self._data.find(b"\n", max(0, self._stop - 1 - self._offset)) + 1
        return end or (whole if self._ended else 0)

    def _lines_before(self) -> int:
        """The line breaks before the range: the file is read up to there, for few ever ask."""
        if self._lines is None:
            lines, at = 0, 0
            try:
                back = self._stream.tell()
                self._stream.seek(0)
                while at < self._start and (data := self._stream.read(min(Growth.MOST, self._start - at))):
                    lines += line_breaks(data)
                    at += len(data)
                self._stream.seek(back)
            except OSError as error:
                raise broken(self._stream, self.name, error, at) from error
            self._lines = lines
        return self._lines

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
        return SourceError(f"{self.name} has changed since it was listed or read: it ends before byte {offset}")

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
        except FAILURES as error:
            self._failure = broken(self._stream, self.name, error, self._offset + length)
        if len(parts) > 1:
            self._data = b"".join(parts)


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
