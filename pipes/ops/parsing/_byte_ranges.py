"""Byte ranges of files: the units of the parsers of text, of TFRecord and of Avro."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...core.context import Context
from ...core.operator import StageView, Weights
from ...errors import Origin, SourceError
from ...formats.ranges import RangedFormat
from ...formats.text.chunks import TO_END
from ...storage.file import File
from ...storage.tasks import in_threads
from ._unit_table import Numbers, UnitTable
from ._units import Units

MAX_RANGE_BYTES = 2**25
"""The longest range. Each range costs two requests, which is little beside 32 MiB."""
MIN_RANGE_BYTES = 2**18
"""The shortest range that is cut off; shorter ones would cost more to open than to read."""
_RANGES = 2**10  # in all files together: enough for many shards, few enough to list
_FILES_AT_A_TIME = 2**10  # they exist as Python objects meanwhile


class ByteRange(NamedTuple):
    """A handle on the records that begin in a range of a file.

    Attributes:
        file: the file.
        start, stop: the bytes of the file before the range, and before its end.
        size: of the file, in bytes; -1 if it is unknown.
        compressed: whether the file is.
    """

    file: File
    start: int
    stop: int
    size: int
    compressed: bool


@dataclass(frozen=True, eq=False)
class ByteRanges(Units[RangedFormat[Any], ByteRange]):
    """A handle for each range of each file; a single one for a file that is small, compressed, or cannot be split.

    It does not declare that it expands, since there may be no more ranges than files. So when shards divide files, they
    divide the rows of the parser for the files left over.
    """

    kind: ClassVar[str] = "byte_ranges"
    fields: ClassVar[tuple[str, ...]] = ByteRange._fields

    def head(self, file: File) -> object:
        with file.open() as stream:
            return self.format.head(stream, file.path)

    def find_units(self, files: Iterator[File]) -> UnitTable:
        sizes, compressed = self._look_up(files)
        return self._table(sizes, compressed, range_bytes(int(sizes[sizes > 0].sum())))

    def units_in(self, file: File) -> list[ByteRange]:
        # The files come in another order each time, and shards divide them whole.
        table = self._table(*self._look_up(iter([file])), MAX_RANGE_BYTES)
        return [self.unit(file, *numbers) for _, *numbers in table.numbers.tolist()]

    def unit(self, file: File, *numbers: int) -> ByteRange:
        start, stop, size, compressed = numbers
        return ByteRange(file, start, stop, size, bool(compressed))

    def start(self, unit: ByteRange) -> Origin:
        return Origin(unit.file.path, unit.start, "byte")

    def weights(self, stage: StageView, context: Context) -> Weights:
        start, stop, size = (self.resolved_table.column(name) for name in ("start", "stop", "size"))
        return Weights(np.where(size < 0, -1, np.minimum(stop, size) - start))

    def cut(self, unit: object, first: int, stop: int, slots: int) -> ByteRange | None:
        part = cast("ByteRange", unit)
        if part.size < 0 or part.compressed or self.format.why_not_split() is not None:
            return None
        length = min(part.stop, part.size) - part.start
        begin, end = (part.start + length * slot // slots for slot in (first, stop))
        return part._replace(start=begin, stop=part.stop if stop == slots else end)

    def remark(self, stage: StageView) -> str | None:
        reason = self.format.why_not_split()
        if self.table is None or reason is None:
            return None
        large = int(((self.table.column("size") > MAX_RANGE_BYTES) & (self.table.column("compressed") == 0)).sum())
        if not large:
            return None
        return f"{large} large file{'s are' if large > 1 else ' is'} not split: {reason}"

    def _look_up(self, files: Iterator[File]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The sizes of files, and which of them are compressed."""
        sizes: list[int] = []
        compressed: list[bool] = []
        while part := list(islice(files, _FILES_AT_A_TIME)):
            asks = self.format.why_not_split() is None and any(file.listed is None for file in part)
            sizes.extend(in_threads(_size, part) if asks else [_listed_size(file) for file in part])
            compressed.extend([file.is_compressed() for file in part])
        return np.array(sizes, np.int64), np.array(compressed, np.bool_)

    def _table(self, sizes: Numbers, compressed: npt.NDArray[np.bool_], length: int) -> UnitTable:
        """The ranges of files of these sizes, cut into equal parts of at most `length` bytes."""
        counts = np.maximum(1, -(-sizes // length))
        counts[compressed | (self.format.why_not_split() is not None)] = 1
        files = np.repeat(np.arange(len(sizes)), counts)
        numbers = np.arange(len(files)) - np.repeat(np.cumsum(counts) - counts, counts)

        def before(number: Numbers) -> Numbers:
            """The bytes before a range of its file: `size * number // count`, which may be too large for an int64."""
            whole, rest = np.divmod(sizes, counts)
            return number * whole[files] + number * rest[files] // counts[files]

        stops = np.where(numbers + 1 == counts[files], TO_END, before(numbers + 1))
        columns = [files, before(numbers), stops, sizes[files], compressed[files].astype(np.int64)]
        return UnitTable(self.fields, np.stack(columns, axis=1))


def range_bytes(total: int) -> int:
    """The longest range of files that have `total` bytes together. It depends on the data alone, never on ranks."""
    return min(max(total // _RANGES, MIN_RANGE_BYTES), MAX_RANGE_BYTES)


def _listed_size(file: File) -> int:
    return -1 if file.listed is None else file.listed


def _size(file: File) -> int:
    if file.listed is not None or file.is_compressed():
        return _listed_size(file)
    try:
        return file.size()
    except SourceError:  # the reader raises it again, after the rows of the files before
        return -1
