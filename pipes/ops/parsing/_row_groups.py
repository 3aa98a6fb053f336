"""Row groups of Parquet files: the units of `parse_parquet`, and how their rows are read in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.context import Context
from ...errors import DataError, Origin, SourceError
from ...formats.parquet.file import BatchSize, ParquetFile
from ...formats.parquet.footer import ParquetFooter, read_parquet_footer
from ...formats.parquet.options import Parquet
from ...storage.file import File, Stream
from ...storage.remote import RemoteRanges
from ...storage.tasks import Task
from ._counted_units import CountedUnits
from ._open_files import OpenFileCache
from ._parse_units import Piece, Place, UnitReader

_LOCAL_READ_BYTES, _REMOTE_READ_BYTES = 2**16, 2**22
"""How much of a column Arrow reads at a time, by what a request costs, if the row group was not fetched whole."""


class RowGroup(NamedTuple):
    """A handle on a row group.

    Attributes:
        file: the file.
        number: of the row group in the file.
        rows: how many it has.
        first: the number of its first row in the file.
        seal: of the footer that says so.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int


@dataclass(frozen=True, eq=False)
class RowGroups(CountedUnits[Parquet, RowGroup]):
    """A handle for each row group of each file, from the footers."""

    kind: ClassVar[str] = "row_groups"
    fields: ClassVar[tuple[str, ...]] = RowGroup._fields

    def head(self, file: File) -> ParquetFooter:
        with file.open(None) as stream:
            return read_parquet_footer(stream, file.path)

    def unit(self, file: File, *numbers: int) -> RowGroup:
        return RowGroup(file, *numbers)

    def units_in(self, file: File) -> list[RowGroup]:
        """The row groups of a file that may have rows for the filter."""
        footer = self.head(file)
        rows = footer.row_counts()
        firsts = np.cumsum([0, *rows]).tolist()
        matching = ParquetFile(self.format, footer).matching_row_groups()
        return [RowGroup(file, k, rows[k], firsts[k], footer.seal) for k in matching]


class _OpenFile(NamedTuple):
    file: ParquetFile
    stream: Stream


class _Source(NamedTuple):
    """What Arrow reads a row group from, and how many bytes of a column at a time; 0 for all of it."""

    file: ParquetFile
    stream: Any
    buffer_bytes: int


class _OpenSource(Task[_Source]):
    """Opens a file. `start` also requests the bytes of a row group, as soon as the budget has room for them."""

    def start(self) -> None:
        source = self.result_if_done
        if source is None:
            super().start()
        elif isinstance(source.stream, RemoteRanges):
            source.stream.fetch(needed=False)


class RowGroupReader(UnitReader[RowGroup, _OpenSource]):
    """Reads row groups. A place is [rows of the row group before it]; a resume reads the row group up to there."""

    def __init__(self, options: Parquet, context: Context) -> None:
        self._context = context
        self._batch_size = BatchSize()
        self._files = OpenFileCache(partial(_open, options), lambda opened: opened.stream.close())

    def is_remote(self, unit: RowGroup) -> bool:
        return not unit.file.is_local()

    def start_reading(self, unit: RowGroup, early: bool) -> _OpenSource:
        opening = self._files.task(unit)

        def source() -> _Source:
            file, stream = opening.result()
            if stream.remote is None:
                return _Source(file, stream.raw, _LOCAL_READ_BYTES)
            parts = file.byte_ranges(unit.number)
            if parts is None:
                return _Source(file, stream.raw, _REMOTE_READ_BYTES)
            ranges = RemoteRanges(stream.remote.file, parts)
            ranges.fetch(needed=False)
            return _Source(file, ranges, 0)

        return _OpenSource(source)

    def pieces(self, unit: RowGroup, opened: _OpenSource, place: Place) -> Iterator[Piece]:
        (before,) = place
        file, stream, buffer_bytes = opened.result()
        threads = self._context.process.threads
        if isinstance(stream, RemoteRanges):
            stream.fetch(needed=True)
        try:
            for part in file.read_row_group(
                stream, unit.number, unit.first, before, self._batch_size, buffer=buffer_bytes, threads=threads
            ):
                end = None if part.stop == unit.rows else (part.stop,)
                origins: list[Origin | None] | None = None
                if self._context.tracing.origins:
                    origins = [Origin(unit.file.path, int(number) + 1) for number in part.numbers]
                pieces = [Piece(part.rows, (before,), end, origins)]
                before = part.stop
                del part
                yield pieces.pop()
        finally:
            if isinstance(stream, RemoteRanges):
                stream.close()

    def close(self) -> None:
        self._files.close()


def _open(options: Parquet, group: RowGroup) -> _OpenFile:
    stream = group.file.open(None)
    try:
        return _OpenFile(ParquetFile(options, _unchanged_footer(stream, group)), stream)
    except BaseException:
        stream.close()
        raise


def _unchanged_footer(stream: Stream, group: RowGroup) -> ParquetFooter:
    """The footer of the file, if it is the one that the row group was found in."""
    reason = "its footer is a different one now"
    try:
        footer = read_parquet_footer(stream, group.file.path)
        if footer.seal == group.seal:
            return footer
    except DataError as error:
        reason = str(error)
    raise SourceError(
        f"{group.file.path} has changed since its footer was read: {reason}; a pipe and a loader read footers once, so "
        "create both again"
    )
