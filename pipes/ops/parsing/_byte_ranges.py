"""Byte ranges of text files: the units of `parse_csv`, `parse_jsonl` and `parse_lines`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ...errors import Origin, SourceError
from ...formats.text.chunks import TO_END, ChunkReader, TextFormat
from ...storage.file import File
from ...storage.tasks import in_threads
from ._units import Units

RANGE = 2**25
"""Bytes of a range, at most: a file of 1 GiB makes 32, and the two requests that each costs are little beside it."""


class ByteRange(NamedTuple):
    """A handle on the records that begin in a range of a file.

    Attributes:
        file: the file.
        start, stop: bytes before the range, and bytes before its end.
        size: bytes of the file; -1 where nobody has asked, or it is compressed.
    """

    file: File
    start: int
    stop: int
    size: int


@dataclass(frozen=True, eq=False)
class ByteRanges(Units[TextFormat[Any], ByteRange]):
    """A handle for each range of each file; one for the whole where it is small, compressed, or cannot be cut.

    It does not declare that it expands. So where files are dealt, of those left over the parser's rows are dealt:
    ranges may be as few as the files.
    """

    kind: ClassVar[str] = "byte_ranges"
    fields: ClassVar[tuple[str, ...]] = ByteRange._fields

    def head(self, file: File) -> object:
        with file.open() as stream:
            return self.format.read_head(ChunkReader(stream, file.path, self.format.last_record_end))

    def units(self, files: Sequence[File]) -> Iterable[Sequence[ByteRange]]:
        asks = self.format.why_not_split() is None and any(file.listed is None for file in files)
        sizes = in_threads(_size, files) if asks else map(_listed, files)
        return map(self._cut, files, sizes)

    def unit(self, file: File, *numbers: int) -> ByteRange:
        return ByteRange(file, *numbers)

    def start(self, unit: ByteRange) -> Origin:
        return Origin(unit.file.path, unit.start, "byte")

    def remark(self) -> str | None:
        reason = self.format.why_not_split()
        large = 0 if self.table is None or reason is None else int((self.table.column("size") > RANGE).sum())
        if not large:
            return None
        return f"{large} large file{'s are' if large > 1 else ' is'} not cut: {reason}"

    def _cut(self, file: File, size: int) -> list[ByteRange]:
        if size <= RANGE or self.format.why_not_split() is not None:
            return [ByteRange(file, 0, TO_END, size)]
        count = -(-size // RANGE)
        starts = [size * k // count for k in range(count)]
        return [ByteRange(file, *both, size) for both in zip(starts, [*starts[1:], TO_END], strict=True)]


def _listed(file: File) -> int:
    if file.listed is None or (file.listed > RANGE and file.is_compressed()):
        return -1
    return file.listed


def _size(file: File) -> int:
    if file.listed is not None or file.is_compressed():
        return _listed(file)
    try:
        return file.size()
    except SourceError:  # the reader will say so, after the rows of the files before
        return -1
