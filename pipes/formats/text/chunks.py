"""`ChunkReader`: reads a stream of text in chunks that end where a record ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import BinaryIO, NamedTuple, Protocol, TypeVar

import numpy as np

from ...core.rows import BlockRows
from ...errors import DataError, FeedpipeError, Origin
from ..ranges import RangedFormat
from ..streams import stream_error
from ..window import ChunkSize, StreamWindow
from .encoding import shown

_NEWLINE = 10
BOM = b"\xef\xbb\xbf"
MAX_RECORD_BYTES = 2**27
"""The longest record; a file with a longer one is taken for something else."""
MAX_COUNTED_BYTES = 2**28
"""How far into a file errors count lines; lines before a range are counted by reading the file up to there."""
TO_END = 2**63 - 1
"""The end of a range that goes to the end of its file, wherever that is."""

LAST_RECORD_BYTES = 2**14
"""Most records are shorter: the rest of the last one of a range is read with those before it."""
_COUNTED_BYTES = 2**20  # the lines in each such part of a file are counted once in a run


class TextPlace(NamedTuple):
    """A place in a file: the bytes before it (of the content, if the file is compressed), and its line.

    Lines are counted from 1, and in a range from its beginning: only a `ChunkReader` knows the lines before.
    """

    offset: int = 0
    line: int = 1


class Chunk(NamedTuple):
    """Whole records, as bytes."""

    data: bytes
    at: TextPlace
    end: TextPlace
    last: bool
    """Whether the range ends here; only then may the last record lack its newline."""

    def place(self, start: int) -> TextPlace:
        """The place of byte `start` of the chunk in the file."""
        return TextPlace(self.at.offset + start, self.at.line + self.data.count(b"\n", 0, start))

    def cut(self, starts: Iterable[int]) -> list[Chunk]:
        """The chunk in parts: each but the first begins at one of the bytes `starts`, where records begin."""
        parts: list[Chunk] = []
        at = self.at
        for start, stop in pairwise([0, *starts, len(self.data)]):
            data = self.data[start:stop]
            is_end = stop == len(self.data)
            end = self.end if is_end else TextPlace(at.offset + len(data), at.line + data.count(b"\n"))
            parts.append(Chunk(data, at, end, self.last and is_end))
            at = end
        return parts


class ParsedPart(NamedTuple):
    """Whole records of a chunk that were parsed together, or one that is malformed.

    Attributes:
        rows: the rows of the records.
        chunk: the bytes of the records.
        error: of the malformed record.
    """

    rows: BlockRows
    chunk: Chunk
    error: DataError | None = None


ParseChunk = Callable[[Chunk, int], Iterator[ParsedPart]]
"""Parses a chunk, given the number of records of the file before it. Who does not want the records behind a malformed
one does not ask for them."""


F = TypeVar("F", covariant=True)


class TextFormat(RangedFormat[F], Protocol[F]):
    """A format of text, in which each line break ends a record if files are split."""

    def as_utf8(self, stream: BinaryIO, name: str) -> BinaryIO:
        """The stream of a file, decoded if a parser needs that."""
        ...

    def last_record_end(self, data: bytes) -> int:
        """Where the last whole record of `data` ends; 0 if none does."""
        ...

    def start_reading(self, reader: ChunkReader) -> tuple[TextPlace, ParseChunk]:
        """Where the records of a file begin, and the function that parses its chunks."""
        ...

    def row_lines(self, chunk: Chunk) -> list[int]:
        """The line of each row of a chunk."""
        ...


def count_lines(data: bytes) -> int:
    """The number of line breaks."""
    # NumPy counts with vector instructions, `bytes.count` does not: that took 10 % of the time of parsing numbers.
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE))


def last_line_end(data: bytes) -> int:
    """Where the last whole line of `data` ends; 0 if none does."""
    return data.rfind(b"\n") + 1


def line_ends(data: bytes) -> list[int]:
    """Where each line of `data` ends; the last one may lack its line break."""
    ends = (np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1).tolist()
    return ends if data.endswith(b"\n") else [*ends, len(data)]


class ChunkReader:
    """Reads chunks from a stream, or from a range of it: the records that begin in the range.

    Args:
        stream: of bytes. The reader seeks in it if it can, else it reads over what comes before.
        name: the name of the file, for errors.
        last_record_end: finds where the last whole record of some bytes ends; gives 0 if none does.
        start, stop: bytes of the range. If it is not the whole file, each line break must end a record, and the stream
            must be able to seek.
        line_counts: the lines before each MiB of files, by name, as far as they were counted; it is filled.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        last_record_end: Callable[[bytes], int] = last_line_end,
        start: int = 0,
        stop: int = TO_END,
        line_counts: dict[str, list[int]] | None = None,
    ) -> None:
        self.name = name
        self._stream = stream
        self._last_record_end = last_record_end
        self._start = start
        self._stop = stop
        self._line_counts = {} if line_counts is None else line_counts
        self._lines: int | None = None if start else 0  # before the range; None until they are counted
        self._window = StreamWindow(stream, name)

    def whole(self) -> ChunkReader:
        """A reader of the whole file on the same stream; use it before this one."""
        if not self._start and self._stop == TO_END:
            return self
        return ChunkReader(self._stream, self.name, self._last_record_end)

    def first_record(self, begin: TextPlace) -> TextPlace:
        """Find the first record that begins in the range, given where the records of the file begin.

        It follows the first line break at or after the byte before the range.
        """
        if self._start <= begin.offset:
            return TextPlace(begin.offset, begin.line - self._lines_before())
        at = self._start - 1
        self._window.seek(at)
        while at < self._stop - 1:
            self._window.advance(at)
            self._window.fill(ChunkSize.FIRST_BYTES)
            if length := self._window.data.find(b"\n") + 1:
                return TextPlace(at + length, 1 if at + length == self._start else 2)
            if self._window.error is not None:
                raise self._window.error
            if self._window.ended:
                break
            at += len(self._window.data)
        return TextPlace(self._stop)

    def chunks(self, at: TextPlace, size: ChunkSize) -> Iterator[Chunk]:
        """All chunks from `at` on. If the stream fails, the whole records before come first, then the error."""
        while at.offset < self._stop and (chunk := self.peek(at, size.next())) is not None:
            yield chunk
            at = chunk.end

    def origins(self, chunk: Chunk, lines: Sequence[int]) -> list[Origin | None]:
        """Where the rows come from that begin in these lines of a chunk: lines, or far into a file bytes."""
        if self._start <= MAX_COUNTED_BYTES:
            shift = self._lines_before()
            return [Origin(self.name, shift + line, "line") for line in lines]
        begins = [0, *(np.flatnonzero(np.frombuffer(chunk.data, np.uint8) == _NEWLINE) + 1).tolist()]
        return [Origin(self.name, chunk.at.offset + begins[line - chunk.at.line], "byte") for line in lines]

    def describe(self, place: TextPlace) -> str:
        """File and line of a place, for an error."""
        if self._start > MAX_COUNTED_BYTES:
            limit = MAX_COUNTED_BYTES >> 20
            return f"{self.name}, byte {place.offset} (lines are counted in the first {limit} MiB of a file)"
        return f"{self.name}, line {self._lines_before() + place.line}"

    def peek(self, at: TextPlace, size: int) -> Chunk | None:
        """The chunk that begins at `at`: about `size` bytes, at least one record; None at the end."""
        offset, line = at
        left = self._stop - offset + LAST_RECORD_BYTES
        if left < size + size // 2:  # a second chunk of a few records would cost as much as this one
            size = left
        self._window.advance(offset)
        if offset == 0 and self._begins_with_bom():
            offset = len(BOM)
            self._window.advance(offset)
        while True:
            self._window.fill(size)
            length = len(self._window.data)
            end = self._records_end()
            if end or self._window.ended or self._window.error is not None:
                break
            if length >= MAX_RECORD_BYTES:
                raise DataError(
                    f"{self.describe(at)}: no end of the record that begins here within {length >> 20} MiB; "
                    "is it a text file, and is each quote closed?"
                )
            behind = offset + length - self._stop  # bytes that were read for the end of the last record
            size = length + (behind if behind > 0 else length)
        if not end:
            if self._window.error is not None:
                raise self._window.error
            return None
        data = self._window.data[:end]
        after = TextPlace(offset + end, line + count_lines(data))
        return Chunk(data, TextPlace(offset, line), after, self._window.ended or after.offset >= self._stop)

    def _records_end(self) -> int:
        """Where the last whole record that begins in the range ends in the window; 0 if none does."""
        end = len(self._window.data) if self._window.ended else self._last_record_end(self._window.data)
        if self._window.offset + end < self._stop:
            return end
        last = self._window.data.find(b"\n", max(0, self._stop - 1 - self._window.offset)) + 1
        return last or (end if self._window.ended else 0)

    def _lines_before(self) -> int:
        """Count the line breaks before the range. This reads the file up to there, so only errors do it."""
        if self._lines is None:
            counts = self._line_counts.setdefault(self.name, [0])
            number = min(self._start // _COUNTED_BYTES, len(counts) - 1)
            lines, at = counts[number], number * _COUNTED_BYTES
            try:
                back = self._stream.tell()
                self._stream.seek(at)
                while at < self._start:
                    data = self._stream.read(min(_COUNTED_BYTES - at % _COUNTED_BYTES, self._start - at))
                    if not data:
                        break
                    lines += count_lines(data)
                    at += len(data)
                    if at == len(counts) * _COUNTED_BYTES:
                        counts.append(lines)
                self._stream.seek(back)
            except FeedpipeError:
                raise
            except OSError as error:
                raise stream_error(error, self.name, self._stream, at) from error
            self._lines = lines
        return self._lines

    def _begins_with_bom(self) -> bool:
        self._window.fill(len(BOM))
        return self._window.data.startswith(BOM)


def shorten(data: bytes | str, max_length: int = 60) -> str:
    """A value as an error shows it."""
    text = data if isinstance(data, str) else shown(data)
    text = text.rstrip("\r\n")
    return repr(text if len(text) <= max_length else text[: max_length - 3] + "...")
