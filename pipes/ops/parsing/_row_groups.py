"""Row groups of Parquet files: the units of `parse_parquet`, and how their rows are read in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...core.context import Context
from ...errors import DataError, Origin, SourceError
from ...formats.parquet.file import BatchSize, ParquetFile
from ...formats.parquet.footer import ParquetFooter
from ...formats.parquet.options import Parquet
from ...formats.tables.heads import FlatHead
from ...storage.file import File, Stream
from ...storage.file_values import open_version
from ...storage.remote import RemoteRanges
from ...storage.table_file import TableFile
from ...storage.tasks import Task
from ._counted_units import CountedUnits
from ._file_units import FileContents, FileUnits
from ._footers import parquet_footer
from ._open_files import OpenFileCache
from ._parse_units import Piece, Place, UnitReader

if TYPE_CHECKING:
    import pyarrow as pa

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
        footer_bytes: how long that footer is.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int
    footer_bytes: int


@dataclass(frozen=True, eq=False)
class RowGroups(CountedUnits[Parquet, RowGroup]):
    """A handle for each row group of each file, from the footers."""

    kind: ClassVar[str] = "row_groups"
    fields: ClassVar[tuple[str, ...]] = RowGroup._fields

    def head(self, file: File) -> ParquetFooter:
        stream, version = open_version(file)
        with stream:
            return parquet_footer(file, stream, version)

    def contents(self, file: File) -> FileContents:
        footer = self.head(file)
        rows = footer.row_counts()
        selected = ParquetFile(self.format, footer, _values(file)).matching_row_groups(footer)
        return FileContents(footer.schema, footer.seal, rows, [False] * len(rows), selected, footer.length)

    def kept_head(self, file: File, schema: pa.Schema) -> FlatHead:
        return FlatHead(file.path, schema)

    def can_use(self, units: FileUnits) -> bool:
        # Only a footer knows the fields in a column of structs, as Parquet has them, and the statistics of a filter.
        nested = [name for name in self.format.columns or () if "." in name]
        return not self.format.uses_statistics and all(
            name in schema.names for name in nested for schema in units.schemas
        )

    def unit(self, file: File, *numbers: int) -> RowGroup:
        return RowGroup(file, *numbers)


class _OpenFile(NamedTuple):
    """An open file, and the version of it that the stream reads."""

    file: ParquetFile
    stream: Stream
    version: object


class _Source(NamedTuple):
    """What Arrow reads a row group from, and how many bytes of a column at a time; 0 for all of it."""

    opened: _OpenFile
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
        self._options = options
        self._batch_size: BatchSize | None = None
        self._files = OpenFileCache(partial(_open, options), lambda opened: opened.stream.close())

    def is_remote(self, unit: RowGroup) -> bool:
        return not unit.file.is_local()

    def start_reading(self, unit: RowGroup, early: bool) -> _OpenSource:
        opening = self._files.task(unit)

        def source() -> _Source:
            opened = opening.result()
            remote = opened.stream.remote
            if remote is None:
                return _Source(opened, opened.stream.raw, _LOCAL_READ_BYTES)
            parts = opened.file.byte_ranges(_unchanged_footer(unit, opened.stream, opened.version), unit.number)
            if parts is None:
                return _Source(opened, opened.stream.raw, _REMOTE_READ_BYTES)
            ranges = RemoteRanges(remote.file, parts)
            ranges.fetch(needed=False)
            return _Source(opened, ranges, 0)

        return _OpenSource(source)

    def pieces(self, unit: RowGroup, opened: _OpenSource, place: Place) -> Iterator[Piece]:
        (before,) = place
        (file, file_stream, version), stream, buffer_bytes = opened.result()
        footer = _unchanged_footer(unit, file_stream, version)
        threads = self._context.process.threads
        if self._batch_size is None:
            self._batch_size = BatchSize(len(self._options.names_to_read()), self._options.row_bytes())
        if isinstance(stream, RemoteRanges):
            stream.fetch(needed=True)
        try:
            for part in file.read_row_group(
                footer,
                stream,
                unit.number,
                unit.first,
                before,
                self._batch_size,
                buffer=buffer_bytes,
                threads=threads,
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


def _values(file: File) -> Mapping[str, Any] | None:
    """The values that the log of a table has of a file; None if there is no log."""
    return file.values if isinstance(file, TableFile) else None


def _open(options: Parquet, group: RowGroup) -> _OpenFile:
    stream, version = open_version(group.file)
    try:
        file = ParquetFile(options, _unchanged_footer(group, stream, version), _values(group.file))
        return _OpenFile(file, stream, version)
    except BaseException:
        stream.close()
        raise


def _unchanged_footer(group: RowGroup, stream: Stream, version: object) -> ParquetFooter:
    """The footer of an open file, if it is the one that the row group was found in."""
    reason = "its footer is a different one now"
    try:
        footer = parquet_footer(group.file, stream, version, group.footer_bytes)
        if footer.seal == group.seal:
            return footer
    except DataError as error:
        reason = str(error)
    raise SourceError(
        f"{group.file.path} has changed since its footer was read: {reason}; a pipe reads footers once, so make it anew"
    )
