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

MAX_RANGE_BYTES = 2**25
"""The longest range. Each range costs two requests, which is little beside 32 MiB; a file of 1 GiB has 32 ranges."""


class ByteRange(NamedTuple):
    """A handle on the records that begin in a range of a file.

    Attributes:
        file: the file.
        start, stop: the bytes of the file before the range, and before its end.
        size: of the file, in bytes; -1 if it is unknown or the file is compressed.
    """

    file: File
    start: int
    stop: int
    size: int


@dataclass(frozen=True, eq=False)
class ByteRanges(Units[TextFormat[Any], ByteRange]):
    """A handle for each range of each file; a single one for a file that is small, compressed, or cannot be split.

    It does not declare that it expands, since there may be no more ranges than files. So when shards divide files, they
    divide the rows of the parser for the files left over.
    """

    kind: ClassVar[str] = "byte_ranges"
    fields: ClassVar[tuple[str, ...]] = ByteRange._fields

    def head(self, file: File) -> object:
        with file.open() as stream:
            return self.format.read_head(ChunkReader(stream, file.path, self.format.last_record_end))

    def units(self, files: Sequence[File]) -> Iterable[Sequence[ByteRange]]:
        asks = self.format.why_not_split() is None and any(file.listed is None for file in files)
        sizes = in_threads(_size, files) if asks else map(_listed_size, files)
        return map(self._split, files, sizes)

    def unit(self, file: File, *numbers: int) -> ByteRange:
        return ByteRange(file, *numbers)

    def start(self, unit: ByteRange) -> Origin:
        return Origin(unit.file.path, unit.start, "byte")

    def remark(self) -> str | None:
        reason = self.format.why_not_split()
        large = 0 if self.table is None or reason is None else int((self.table.column("size") > MAX_RANGE_BYTES).sum())
        if not large:
            return None
        return f"{large} large file{'s are' if large > 1 else ' is'} not split: {reason}"

    def _split(self, file: File, size: int) -> list[ByteRange]:
        if size <= MAX_RANGE_BYTES or self.format.why_not_split() is not None:
            return [ByteRange(file, 0, TO_END, size)]
        count = -(-size // MAX_RANGE_BYTES)
        starts = [size * k // count for k in range(count)]
        return [ByteRange(file, start, stop, size) for start, stop in zip(starts, [*starts[1:], TO_END], strict=True)]


def _listed_size(file: File) -> int:
    if file.listed is None or (file.listed > MAX_RANGE_BYTES and file.is_compressed()):
        return -1
    return file.listed


def _size(file: File) -> int:
    if file.listed is not None or file.is_compressed():
        return _listed_size(file)
    try:
        return file.size()
    except SourceError:  # the reader raises it again, after the rows of the files before
        return -1
