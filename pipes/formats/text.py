"""Text: chunks of a stream that end where a record ends, encodings, and malformed records."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from ..core.rows import BlockRows
from ..errors import ArgumentError, DataError, FeedpipeError, Origin, shown_path
from .streams import ChunkSize, StreamWindow, stream_error

T = TypeVar("T")
R = TypeVar("R")

_BLOCK_BYTES = 2**16
_HANDLER = "feedpipe.undecodable"
_FIRST = 0xDC00
"""A byte that cannot be decoded becomes this code point plus its value. UTF-8 has no such code points."""


def check_encoding(encoding: str) -> None:
    """Raise an `ArgumentError` if Python has no such encoding of text."""
    try:
        "\n".encode(encoding)
        codecs.getincrementaldecoder(encoding)
    except (LookupError, TypeError, ValueError):
        raise ArgumentError(f"`encoding` must be a text encoding but got: {encoding!r}") from None


def is_utf8(encoding: str) -> bool:
    """Whether an encoding is UTF-8, by any of its names."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


class Utf8Stream(io.RawIOBase):
    """The text of a stream as UTF-8. It cannot seek, since a place in the UTF-8 tells no place in the file.

    Bytes that cannot be decoded become no UTF-8 either, so the parser finds them in their record. `shown` makes them
    readable.
    """

    def __init__(self, stream: BinaryIO, name: str, encoding: str) -> None:
        super().__init__()
        self._stream = stream
        self._name = name
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(_HANDLER)
        self._text = memoryview(b"")  # decoded, but not read yet
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._text and not self._ended:
            data = self._stream.read(_BLOCK_BYTES)
            self._ended = not data
            try:
                text = self._decoder.decode(data, self._ended)
            except UnicodeError as error:  # of the whole file, such as a missing byte order mark
                raise DataError(f"{self._name} is not {self._encoding}: {error}; {REPAIR}") from error
            self._text = memoryview(text.encode("utf-8", "surrogatepass"))
        count = min(len(buffer), len(self._text))
        buffer[:count] = self._text[:count]
        self._text = self._text[count:]
        return count


REPAIR = "`encoding=` says how the file is written"


def shown(data: bytes) -> str:
    r"""Text of a `Utf8Stream` for people, with `\xff` for a byte that could not be decoded."""
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # the file itself is meant to be UTF-8
        return data.decode("utf-8", "backslashreplace")
    if text.isascii():
        return text
    return "".join(f"\\x{ord(c) - _FIRST:02x}" if _FIRST <= ord(c) < _FIRST + 256 else c for c in text)


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(_FIRST + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_HANDLER, _mark)

_NEWLINE = 10
BOM = b"\xef\xbb\xbf"
MAX_RECORD_BYTES = 2**27
"""The longest record. A file with a longer one is probably no text."""
MAX_COUNTED_BYTES = 2**28
"""Errors count lines up to here, by reading the file from its beginning."""
TO_END = 2**63 - 1
"""The end of a range that reaches to the end of its file, wherever that is."""
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
    """Whole records of a chunk that were parsed together, or one that is malformed, with its error."""

    rows: BlockRows
    chunk: Chunk
    error: DataError | None = None


ParseChunk = Callable[[Chunk, int], Iterator[ParsedPart]]
"""Parses a chunk, given the number of records of the file before it. A caller that does not want the records after a
malformed one stops asking."""


def count_lines(data: bytes) -> int:
    """The number of line breaks."""
    # NumPy counts with vector instructions, `bytes.count` does not: that took 10 % of the time of parsing numbers.
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE))


def last_line_end(data: bytes) -> int:
    """The end of the last whole line of `data`; 0 if it holds none."""
    return data.rfind(b"\n") + 1


def line_ends(data: bytes) -> list[int]:
    """The end of each line of `data`; the last one may lack its line break."""
    ends = (np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1).tolist()
    return ends if data.endswith(b"\n") else [*ends, len(data)]


class ChunkReader:
    """Reads chunks from a stream, or from a range of it: the records that begin in the range.

    Args:
        stream: of bytes. The reader seeks in it if it can, else it reads over what comes before.
        path: the path of the file.
        last_record_end: finds the end of the last whole record of some bytes; gives 0 if they hold none.
        start, stop: bytes of the range. If it is not the whole file, each line break must end a record, and the stream
            must be able to seek.
        line_counts: the lines before each MiB of files, by name, to be filled as they are counted.
    """

    def __init__(
        self,
        stream: BinaryIO,
        path: str,
        last_record_end: Callable[[bytes], int] = last_line_end,
        start: int = 0,
        stop: int = TO_END,
        line_counts: dict[str, list[int]] | None = None,
    ) -> None:
        self.path = path
        self._stream = stream
        self._last_record_end = last_record_end
        self._start = start
        self._stop = stop
        self._line_counts = {} if line_counts is None else line_counts
        self._lines: int | None = None if start else 0  # before the range; None until they are counted
        self._window = StreamWindow(stream, path)

    def whole(self) -> ChunkReader:
        """A reader of the whole file on the same stream; use it before this one."""
        if not self._start and self._stop == TO_END:
            return self
        return ChunkReader(self._stream, self.path, self._last_record_end)

    def first_record(self, begin: TextPlace) -> TextPlace:
        """Find the first record that begins in the range, given where the records of the file begin.

        It follows the first line break at or after the byte before the range.
        """
        if self._start <= begin.offset:
            return TextPlace(begin.offset, begin.line - self._lines_before())
        self._window.seek(self._start - 1)
        for at in self._window.scan(self._start - 1, self._stop - 1, 0):
            if length := self._window.data.find(b"\n") + 1:
                return TextPlace(at + length, 1 if at + length == self._start else 2)
        return TextPlace(self._stop)

    def after_lines(self, count: int) -> TextPlace:
        """The place after the first lines of the file, or its end if it has no more."""
        left = count
        for at in self._window.scan(0, TO_END, 0):
            breaks = np.flatnonzero(np.frombuffer(self._window.data, np.uint8) == _NEWLINE)
            if len(breaks) >= left:
                return TextPlace(at + int(breaks[left - 1]) + 1, count + 1)
            left -= len(breaks)
        return TextPlace(self._window.offset + len(self._window.data), count - left + 1)

    def chunks(self, at: TextPlace, size: ChunkSize) -> Iterator[Chunk]:
        """All chunks from `at` on. If the stream fails, the whole records before come first, then the error."""
        while at.offset < self._stop and (chunk := self.peek(at, size.next())) is not None:
            yield chunk
            at = chunk.end

    def origins(self, chunk: Chunk, lines: Sequence[int]) -> list[Origin]:
        """The origins of the rows that begin in these lines of a chunk: lines, or bytes far into a file."""
        if self._start <= MAX_COUNTED_BYTES:
            shift = self._lines_before()
            return [Origin(self.path, shift + line, "line") for line in lines]
        begins = [0, *(np.flatnonzero(np.frombuffer(chunk.data, np.uint8) == _NEWLINE) + 1).tolist()]
        return [Origin(self.path, chunk.at.offset + begins[line - chunk.at.line], "byte") for line in lines]

    def describe(self, place: TextPlace) -> str:
        """File and line of a place, for an error."""
        name = shown_path(self.path)
        if self._start > MAX_COUNTED_BYTES:
            limit = MAX_COUNTED_BYTES >> 20
            return f"{name}, byte {place.offset} (lines are counted in the first {limit} MiB of a file)"
        return f"{name}, line {self._lines_before() + place.line}"

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
            excess = offset + length - self._stop  # bytes that were read for the end of the last record
            size = length + (excess if excess > 0 else length)
        if not end:
            if self._window.error is not None:
                raise self._window.error
            return None
        data = self._window.data[:end]
        after = TextPlace(offset + end, line + count_lines(data))
        return Chunk(data, TextPlace(offset, line), after, self._window.ended or after.offset >= self._stop)

    def _records_end(self) -> int:
        """The end in the window of the last whole record that begins in the range; 0 if there is none."""
        end = len(self._window.data) if self._window.ended else self._last_record_end(self._window.data)
        if self._window.offset + end < self._stop:
            return end
        last = self._window.data.find(b"\n", max(0, self._stop - 1 - self._window.offset)) + 1
        return last or (end if self._window.ended else 0)

    def _lines_before(self) -> int:
        """Count the line breaks before the range. This reads the file up to there, so only errors do it."""
        if self._lines is None:
            counts = self._line_counts.setdefault(self.path, [0])
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
                raise stream_error(error, self.path, self._stream, at) from error
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


FEW_RECORDS = 64
"""Of so many records, those before and after the one that an error names are parsed; more are divided first."""
_WAYS = 8
"""The parts of records that are divided. One bad record costs as much as with two, one in a hundred a third of that."""


def parse_parts(
    chunk: Chunk,
    read: Callable[[bytes], BlockRows],
    ends: Callable[[bytes], list[int]],
    explain: Callable[[Chunk], DataError],
    named: Callable[[ValueError, Chunk, list[int]], Sequence[int]],
) -> Iterator[ParsedPart]:
    """Parse a chunk at once, or if that fails in smaller and smaller parts.

    Args:
        chunk: of records that do not depend on each other.
        read: makes the rows of some bytes; raises a `ValueError` if it cannot.
        ends: finds where each record ends.
        explain: the error of a record that cannot be read.
        named: the numbers of records that such an error tells, given the end of each; a wrong one costs time only.
    """

    def split(part: Chunk, error: ValueError) -> Sequence[Chunk]:
        bounds = ends(part.data)
        count = len(bounds)
        if count == 1:
            return ()
        cuts = [number + after for number in named(error, part, bounds) for after in (0, 1)]
        cuts = cuts or [count * way // _WAYS for way in range(1, _WAYS)]
        return part.cut(bounds[cut - 1] for cut in dict.fromkeys(cuts) if 0 < cut < count)

    for part, rows in by_parts(chunk, lambda part: read(part.data), split):
        yield ParsedPart([], part, explain(part)) if isinstance(rows, ValueError) else ParsedPart(rows, part)


def by_parts(
    whole: T, parse: Callable[[T], R], split: Callable[[T, ValueError], Sequence[T]]
) -> Iterator[tuple[T, R | ValueError]]:
    """Parse some items at once, or if that fails fewer and fewer of them; give these parts, and what came of each.

    Args:
        whole: all items.
        parse: raises a `ValueError` if one of some items is malformed, or if they do not fit together.
        split: divides items that cannot be parsed; gives nothing for a single one, of which the error then comes.
    """
    parts = [whole]
    while parts:
        part = parts.pop()
        try:
            parsed: R | ValueError = parse(part)
        except ValueError as error:  # Arrow's ArrowInvalid is one
            if smaller := split(part, error):
                parts += reversed(smaller)
                continue
            parsed = error
        yield part, parsed


def first_failing(count: int, read: Callable[[int], object]) -> int:
    """The first of `count` records up to which reading raises a `ValueError`, given that it does up to the last."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        try:
            read(middle + 1)
            low = middle + 1
        except ValueError:  # Arrow's ArrowInvalid is one
            high = middle
    return low
