"""`parse_parquet`: the rows of Parquet files, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..core.block import BlockSize
from ..core.context import Context
from ..core.operator import StageView
from ..core.rows import Row
from ..errors import DataError
from ..storage.file import File, Stream, TableFile
from ..storage.mapping import open_version
from ..storage.remote import RemoteRanges
from ..storage.tasks import Task
from .open_files import OpenFileCache, changed_error, has_fixed_order
from .parquet_file import BatchSize, Parquet, ParquetFile, ParquetFooter, parquet_footer
from .units import CountedUnits, FileContents, FileUnits, ParseCounted, Piece, Place, UnitReader, row_origins

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from ..pipe import Pipe

_LOCAL_READ_BYTES, _REMOTE_READ_BYTES = 2**16, 2**22
"""The part of a column that Arrow reads at a time, by the cost of a request, if the row group is not fetched whole."""


def parse_parquet(
    pipe: Pipe[File],
    /,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    """Give the rows of each Parquet file, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Order: that of
    the files, and within each that of its rows. Length: known from the footers if files come in a fixed order and there
    is no `filter`; streamed. State: a row group and a place in it. A resume reads that row group up to the place.

    Shards divide row groups, so a single file serves many workers. A `shuffle` behind this shuffles the order of row
    groups as well. The footers of all files are read once per pipe, in threads; with a manifest, once for all runs. If
    files come in a new order in each epoch, as with `list_files(...).shuffle()`, shards divide files.

    Names and types are those of the first file (the first of `for x in pipe`); a column of nothing but nulls there has
    the type of the next file with values. Other files must have the same columns, in any order, of the same types, or
    of types that convert without loss: narrower integers and floats, nothing but nulls, text and bytes with offsets of
    any width or as dictionaries. With `unify_schemas=True` the columns are those of all files, and a file that lacks
    one has nulls there; types are the narrowest that hold the values of all files, as Arrow computes them: float64 for
    int64 and float64, and for structs one with the fields of both. The footers of all files are then read before the
    first row. Folders named as in `year=2024` give columns too, int64 if all values are such integers, string
    otherwise, unless the files have a column of that name. Dictionaries are read as their values.

    Memory: a row group is read in batches of about 4 MiB, and 4 KiB for each column, whatever its size. A remote row
    group of up to 64 MiB is fetched whole. Each process keeps up to 256 MiB of footers, so that row groups in any order
    cost no more bytes than in the order of the file.

    Args:
        columns: reads only these columns, in this order; a dot selects a field of a struct, as in "address.city".
        filter: an expression of `pyarrow.compute` over columns of files and folders; these need not be in `columns`. It
            leaves out row groups whose statistics show that no row matches, then rows.
        path_column: the name of an added column with the path of the file.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files and folders together.

    Raises:
        SourceError: a file is missing, cannot be read, or has changed since its footer was read.
        DataError: names file and column of what does not fit: a missing column, columns or types unlike the first
            file's, types that cannot be unified; a file that is not Parquet, or is damaged or encrypted. The rows
            before the error come first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet
        >>> pa.parquet.write_table(pa.table({"id": [1, 2, 3], "said": ["well", "yes", None]}), "a.parquet")
        >>> list(fp.list_files("a.parquet").open_files().parse_parquet(filter=pc.field("id") > 1, row_column="row"))
        [{'id': 2, 'said': 'yes', 'row': 1}, {'id': 3, 'said': None, 'row': 2}]
    """
    options = Parquet(
        columns=columns, filter=filter, path_column=path_column, row_column=row_column, unify_schemas=unify_schemas
    )
    return pipe.then(RowGroups(options, has_fixed_order(pipe))).then(ParseParquet(options))


class RowGroup(NamedTuple):
    """A handle on a row group.

    Attributes:
        file: the file.
        number: of the row group in the file.
        rows: their number.
        first: the number of its first row in the file.
        seal: of the footer that lists it.
        footer_bytes: the length of that footer.
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

    def can_use(self, units: FileUnits) -> bool:
        # Only a footer knows the fields in a column of structs, as Parquet has them, and the statistics of a filter.
        nested = [name for name in self.format.columns or () if "." in name]
        return not self.format.uses_statistics and all(
            name in schema.names for name in nested for schema in units.schemas
        )

    def unit(self, file: File, *numbers: int) -> RowGroup:
        return RowGroup(file, *numbers)


@dataclass(frozen=True, eq=False)
class ParseParquet(ParseCounted[Parquet, RowGroup]):
    kind: ClassVar[str] = "parse_parquet"

    def length(self, stage: StageView) -> int | None:
        return super().length(stage) if self.format.filter is None else None

    def remark(self, stage: StageView) -> str | None:
        fixed = self.format.fixed_schema
        names = () if fixed is None else self.format.names_to_read()
        if fixed is None or names == fixed.names:
            return None
        return f"reads {len(names)} of {len(fixed.names)} columns, because a later `select` keeps no others"

    def reader(self, context: Context, block_size: BlockSize) -> RowGroupReader:
        return RowGroupReader(self.format, context)


class _OpenFile(NamedTuple):
    """An open file, and the version of it that the stream reads."""

    file: ParquetFile
    stream: Stream
    version: object


class _Source(NamedTuple):
    """The stream from which Arrow reads a row group, and the bytes of a column to read at a time; 0 for all of it."""

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
                origins = row_origins(unit.file.path, part.numbers, self._context)
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
    """The values of columns that the log of a table has of a file; None if there is no log."""
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
    raise changed_error(group.file.path, reason=reason)
