"""`parse_parquet`: the rows of Parquet files, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Unpack, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array
from ..core.block import BlockSize, row_width
from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa, pc
from ..core.rows import Row, Rows, RowSignature, sharing
from ..errors import DataError, FeedpipeError, SourceError
from ..formats.columns import (
    TableHead,
    UnifiedSchema,
    arrow_errors,
    check_names,
    is_text,
    plain_values,
    read_error,
    to_column,
    value_type,
)
from ..formats.expressions import expression_code, expression_identity, filter_problem, matching_rows, used_columns
from ..formats.table_format import TableOptions, folder_values, options_of, parse_folders
from ..storage.file import File, Stream, TableFile
from ..storage.file_units import FileContents, UnitTable
from ..storage.mapping import open_object, open_version
from ..storage.remote import RemoteFile, RemoteRanges, RemoteStream
from ..storage.tasks import Task
from .footers import CountedFormat, FileUnit, OpenFileCache
from .open_files import changed_error
from .parquet_footer import (
    ParquetFooter,
    check_filter,
    columns_in_filter,
    listed_footer,
    may_match,
    parquet_footer,
)
from .units import Place, Section, UnitReader, parse, row_origins

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from ..pipe import Pipe


MAX_FETCH_BYTES = 2**26
"""The largest part of a row group that is fetched at once from remote storage; a larger one is read bit by bit."""
_LOCAL_READ_BYTES, _REMOTE_READ_BYTES = 2**16, 2**22
"""The part of a column that Arrow reads at a time, by the cost of a request, if the row group is not fetched whole."""


class ParquetOptions(TableOptions, total=False):
    """The options of `parse_parquet`."""

    filter: pc.Expression | None
    dictionaries: Sequence[str] | None


def parse_parquet(pipe: Pipe[File], /, **options: Unpack[ParquetOptions]) -> Pipe[Row]:
    """Give the rows of each Parquet file, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Order: that of
    the files, and within each that of its rows. Length: known from the footers if files come in a fixed order and there
    is no `filter`; streamed. State: a row group and a place in it. A resume reads that row group up to the place.

    Shards divide row groups, so a single file serves many workers. A `shuffle` after this shuffles the order of row
    groups as well. The footers of all files are read once per pipe, in threads; with a manifest, once for all runs. If
    files come in a new order in each epoch, as with `list_files(...).shuffle()`, shards divide files.

    Names and types are those of the first file (the first of `for x in pipe`); a column of nothing but nulls there has
    the type of the next file with values. Other files must have the same columns, in any order, of the same types, or
    of types that convert without loss: narrower integers and floats, nothing but nulls, text and bytes with offsets of
    any width or as dictionaries. With `unify_schemas=True` the columns are those of all files, and a file that lacks
    one has nulls there; types are the narrowest that hold the values of all files, as Arrow computes them: float64 for
    int64 and float64, and for structs one with the fields of both. The footers of all files are then read before the
    first row. Folders named as in `year=2024` give columns too, int64 if all values are such integers, string
    otherwise, unless the files have a column of that name. Dictionaries are read as their values, unless `dictionaries`
    names them.

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
        dictionaries: the names of columns of text or bytes that stay codes of a dictionary: rows have the same values,
            columns are Arrow arrays of dictionaries, and `collate(codes=True)` makes tensors of the codes. Text that
            repeats is then read several times as fast.

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
    return parse(pipe, Parquet(**options))


class LaterChoice(NamedTuple):
    """The columns that a `select` keeps, which follows in the chain, and the filters between."""

    columns: tuple[str, ...]
    filters: tuple[Any, ...] = ()


class LaterFilter(NamedTuple):
    """A filter that follows in the chain. It tests all rows itself, so here it only leaves out row groups."""

    expression: Any
    columns: tuple[str, ...] = ()


@options_of(parse_parquet, ParquetOptions)
@dataclass(frozen=True, eq=False, kw_only=True)
class Parquet(CountedFormat):
    """The arguments of `parse_parquet`."""

    units: ClassVar[str] = "row_groups"
    fields: ClassVar[tuple[str, ...]] = ("file", "number", "rows", "first", "seal", "footer_bytes")
    int96_unit: ClassVar[str | None] = None
    """The unit of timestamps of 96 bits; None for nanoseconds."""

    filter: Any = None
    dictionaries: Sequence[str] | None = None
    later_filters: tuple[LaterFilter, ...] = ()
    """Filters that follow in the chain; once names and types are fixed, those that fit the columns."""
    later_choice: LaterChoice | None = None
    """What follows in the chain and uses some columns only."""
    used_names: tuple[str, ...] | None = None
    """These columns, once names and types are fixed; the others are not read. None for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filter(self.filter)
        object.__setattr__(self, "dictionaries", check_names("dictionaries", self.dictionaries))

    def argument_code(self, name: str) -> str | None:
        if name != "filter":
            return super().argument_code(name)
        return None if self.filter is None else expression_code(self.filter)

    def identity(self) -> dict[str, Json]:
        return {**super().identity(), "filter": None if self.filter is None else expression_identity(self.filter)}

    def filters(self) -> Iterator[tuple[Any, dict[str, pa.DataType]]]:
        """The filter and those that follow in the chain, each with its columns. Names and types are fixed."""
        fixed = self.require_fixed_schema(self.kind)
        own = [] if self.filter is None else [LaterFilter(self.filter, fixed.filter_columns)]
        for expression, columns in [*own, *self.later_filters]:
            yield expression, {name: value_type(fixed.types[name]) for name in columns}

    def with_later_filter(self, expression: Any) -> Parquet:
        """With a further filter that follows in the chain."""
        return replace(self, later_filters=(*self.later_filters, LaterFilter(expression)))

    def with_later_choice(self, choice: LaterChoice) -> Parquet:
        """With a `select` that follows in the chain. Columns that the user named are read in any case."""
        return self if self.columns is not None else replace(self, later_choice=choice)

    def names_to_read(self) -> tuple[str, ...]:
        """The columns of the rows, without path and row number, that something uses. Names and types are fixed."""
        return self.require_fixed_schema(self.kind).names if self.used_names is None else self.used_names

    def columns_to_read(self) -> Sequence[str] | None:
        """The columns of a file that are read; None for all. Names and types are fixed."""
        fixed, names = self.require_fixed_schema(self.kind), self.names_to_read()
        if names == fixed.names:
            return fixed.read_columns
        return [name for name in fixed.file_types if name in {*names, *fixed.filter_columns}]

    def row_bytes(self) -> int | None:
        """The bytes of each row in the columns of a file; None if rows differ in size."""
        fixed = self.require_fixed_schema(self.kind)
        names = {*self.names_to_read(), *fixed.filter_columns}
        return row_width(pa.schema([(name, kind) for name, kind in fixed.file_types.items() if name in names]))

    def row_schema(self) -> pa.Schema | None:
        schema = super().row_schema()
        if schema is None or self.used_names is None:
            return schema
        names = {*self.used_names, *self.lineage}
        return pa.schema([field for field in schema if field.name in names])

    def fix(self, heads: Iterable[TableHead | None], paths: Iterable[str]) -> Parquet:
        fixed = super().fix(heads, paths)
        if fixed.fixed_schema is None:
            return fixed
        types = fixed.fixed_schema.row_types
        fitting = (later for later in self.later_filters if filter_problem(later.expression, types) is None)
        filters = tuple(LaterFilter(later.expression, (*used_columns(later.expression, types),)) for later in fitting)
        coded = fixed.fixed_schema.with_dictionaries(self.dictionaries or ())
        return replace(fixed, fixed_schema=coded, later_filters=filters, used_names=self._used_names(types))

    def _used_names(self, types: Mapping[str, pa.DataType]) -> tuple[str, ...] | None:
        """The columns, given their types, that something uses; None for all, also if what follows does not fit them."""
        if self.later_choice is None:
            return None
        used = {*self.later_choice.columns}
        for expression in self.later_choice.filters:
            if filter_problem(expression, types) is not None:
                return None
            used.update(used_columns(expression, types))
        if not used <= {*types, *self.lineage}:
            return None
        # A batch without columns does not know its length.
        return tuple(name for name in types if name in used) or (*types,)[:1]

    def head_of(self, file: File) -> ParquetFooter:
        return listed_footer(file) or _footer_of(file)

    def footer(self, file: File) -> FileContents:
        return _contents(self.head_of(file))

    def contents(self, file: File) -> FileContents:
        footer = self.head_of(file)
        selected = ParquetFile(self, footer, _values(file)).matching_row_groups(footer)
        return _contents(footer)._replace(selected=selected)

    def can_use(self, schemas: Sequence[pa.Schema], *, knows_rows: bool) -> bool:
        # Only a footer knows the fields in a column of structs, as Parquet has them.
        nested = [name for name in self.columns or () if "." in name]
        return all(name in schema.names for name in nested for schema in schemas)

    def selects_units(self) -> bool:
        return self.filter is not None or bool(self.later_filters)

    def folder_may_match(self, folder: str) -> bool:
        fixed, named = self.require_fixed_schema(self.kind), parse_folders(folder)
        types = {name: kind for name, kind in fixed.folder_types.items() if name in named}
        values = folder_values(folder, types, fixed.source)
        return all(may_match(expression, types, values) for expression, types in self.filters())

    def length(self, units: UnitTable) -> int | None:
        return super().length(units) if self.filter is None else None

    def remark(self) -> str | None:
        fixed = self.fixed_schema
        if fixed is None or (names := self.names_to_read()) == fixed.names:
            return None
        return f"reads {len(names)} of {len(fixed.names)} columns, because a later `select` keeps no others"

    def reader(self, context: Context, block_size: BlockSize) -> _RowGroupReader:
        return _RowGroupReader(self, threads=context.process.threads)

    def filter_columns(
        self, source: str, types: Mapping[str, pa.DataType], whole: UnifiedSchema, folders: Mapping[str, pa.DataType]
    ) -> Sequence[str]:
        return (
            () if self.filter is None else columns_in_filter(self.filter, types, {**whole.types(), **folders}, source)
        )


class BatchSize:
    """The rows of a batch: by the types of the columns, else by the rows read, as compressed sizes tell little."""

    FIRST_ROWS, MAX_ROWS = 256, 2**17
    BATCH_BYTES = 2**22
    COLUMN_BYTES = 2**13  # more for each column, because Arrow takes as long to begin a column as to read half as much

    def __init__(self, columns: int, row_bytes: int | None) -> None:
        self.learned = self._certain = row_bytes is not None
        self._bytes = self.BATCH_BYTES + self.COLUMN_BYTES * columns
        self._row_bytes = 1.0 if row_bytes is None else float(row_bytes)

    def rows(self) -> int:
        return int(min(self.MAX_ROWS, max(1, self._bytes / self._row_bytes))) if self.learned else self.FIRST_ROWS

    def learn(self, batch: pa.RecordBatch) -> None:
        if not self._certain:
            self.learned = True
            # Not `nbytes`, which takes ten times as long.
            self._row_bytes = max(self._row_bytes, batch.get_total_buffer_size() / max(1, batch.num_rows))


class ParquetFile:
    """Reads a file, given what is fixed for all files, and values of other columns from the log of a table.

    It keeps no reference to the footer, which may take much memory: each call is given it.
    """

    def __init__(self, options: Parquet, footer: ParquetFooter, values: Mapping[str, Any] | None = None) -> None:
        self._options = options
        self._fixed = options.require_fixed_schema(footer.name)
        self._name = footer.name
        columns = self._fixed.columns_in(footer)
        self._names = options.names_to_read()
        read = options.columns_to_read()
        self._read = None if read is None else footer.existing(read)
        self._constants = self._fixed.constants(footer.name, columns, values)
        self._dictionaries = [
            field.name
            for field in (footer.schema.field(name) for name in options.dictionaries or () if name in columns)
            if is_text(field.type)
        ]
        self._int96 = [] if options.int96_unit is not None else footer.int96_columns(self._read)
        self._signature = RowSignature()

    def matching_row_groups(self, footer: ParquetFooter) -> Sequence[int]:
        """The row groups that may have rows for the filter and for those that follow."""
        groups: Sequence[int] = range(footer.metadata.num_row_groups)
        for expression, types in self._options.filters():
            constants = {name: value for name, value in self._constants.items() if name in types}
            matching = footer.matching_row_groups(expression, types, constants)
            groups = groups if matching is None else sorted({*groups}.intersection(matching))
        return groups

    def byte_ranges(self, footer: ParquetFooter, group: int) -> list[tuple[int, int]] | None:
        """Where the columns to read of a row group begin and end; None if they cannot be fetched at once."""
        ranges = footer.byte_ranges(group, self._read)
        fits = ranges is not None and sum(end - begin for begin, end in ranges) <= MAX_FETCH_BYTES
        return ranges if fits else None

    def read_row_group(
        self, footer: ParquetFooter, source: GroupSource, group: FileUnit, skip: int, size: BatchSize
    ) -> Iterator[Section]:
        """Read the rows of a row group without the first `skip`, some at a time."""
        place, expected = 0, group.rows
        self._check_int96(footer, source, [group])
        while True:
            learning = not size.learned
            for batch in self._batches(footer, source, [group], size.rows()):
                size.learn(batch)
                start, stop = place, place + batch.num_rows
                place = stop
                if stop > skip:
                    at = max(start, skip)
                    rows, numbers = self._rows(batch.slice(at - start), range(group.first + at, group.first + stop))
                    end = None if stop == expected else (stop,)
                    sections = [Section(rows, (at,), end, partial(row_origins, group.file.path, numbers))]
                    # Arrow then writes the next batch into memory that is in the cache, which saves 20 % of the time.
                    del batch, rows
                    yield sections.pop()
                if learning:
                    break
            if not (learning and 0 < place < expected):
                break
            skip, place = max(skip, place), 0  # read again, with batches of the size now learned
        if place != expected:
            raise DataError(
                f"{self._name}, row group {group.number}, should have {expected} rows and has {place}: it is damaged"
            )

    def read_row_groups(self, footer: ParquetFooter, source: GroupSource, groups: Sequence[FileUnit]) -> Section | None:
        """Read all rows of several row groups; None if one is damaged, or if Arrow does not join their columns."""
        expected = sum(group.rows for group in groups)
        self._check_int96(footer, source, groups)
        try:
            batch, *others = self._batches(footer, source, groups, expected)
        except (SourceError, DataError):
            return None
        if others or batch.num_rows != expected:
            return None
        places = [range(group.first, group.first + group.rows) for group in groups]
        rows, numbers = self._rows(batch, np.concatenate([np.arange(each.start, each.stop) for each in places]))
        return Section(rows, (0,), None, partial(row_origins, groups[0].file.path, numbers), units=len(groups))

    def _check_int96(self, footer: ParquetFooter, source: GroupSource, groups: Sequence[FileUnit]) -> None:
        """Raise a `DataError` if a timestamp of 96 bits is one that nanoseconds of 64 bits cannot hold.

        Arrow does not notice such a timestamp: it takes the year 9999 for 1816. Of microseconds it holds all.
        """
        if not self._int96:
            return
        try:
            file = source.open(footer, coerce_int96_timestamp_unit="us")
            for batch in file.iter_batches(row_groups=[group.number for group in groups], columns=self._int96):
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    for times in _timestamps(column):
                        least, greatest = cast("Any", pc).min_max(times.cast(pa.int64())).as_py().values()
                        if least is not None and max(-least, greatest) > _MAX_MICROSECONDS:
                            raise DataError(
                                f"{self._name}, column {name!r}: a timestamp of 96 bits lies before 1677 or after "
                                "2262, and nanoseconds of 64 bits cannot hold it; write the file with timestamps of "
                                "microseconds, in Spark by `spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS`"
                            )
        except (FeedpipeError, GeneratorExit):
            raise
        except arrow_errors() as error:
            raise read_error(error, f"{self._name}, row group {groups[0].number},") from error

    def _batches(
        self, footer: ParquetFooter, source: GroupSource, groups: Sequence[FileUnit], rows: int
    ) -> Iterator[pa.RecordBatch]:
        try:
            file = source.open(
                footer,
                pre_buffer=False,
                page_checksum_verification=True,
                coerce_int96_timestamp_unit=self._options.int96_unit,
                read_dictionary=self._dictionaries,
            )
            # A single thread of Arrow's would do the same work, but in the cache of another core.
            use_threads = source.threads and pa.cpu_count() > 1
            numbers = [group.number for group in groups]
            batches = file.iter_batches(rows, row_groups=numbers, columns=self._read, use_threads=use_threads)
            while (batch := next(batches, None)) is not None:
                batch.validate(full=True)  # Arrow does not check that text is UTF-8
                validated = [batch]
                del batch
                yield validated.pop()
        except (FeedpipeError, GeneratorExit):  # while Python exits, `arrow_errors` can import nothing
            raise
        except arrow_errors() as error:
            raise read_error(error, f"{self._name}, row group {groups[0].number},") from error

    def _rows(
        self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64] | range
    ) -> tuple[Rows, npt.NDArray[np.int64] | range]:
        """The rows of a batch that match the filter, and their numbers in the file, of those of all its rows."""
        fixed, length = self._fixed, batch.num_rows
        arrays: dict[str, Any] = {}
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name in fixed.file_types:  # to Arrow a.b is a column of that name, and the field b of a column a
                arrays[name] = fixed.cast(array, name, self._name)
        for name, value in self._constants.items():
            constant: Any = pa.repeat(value, length)
            arrays[name] = fixed.cast(constant, name, self._name) if name in fixed.file_types else constant
        if self._options.filter is not None:
            tested = {name: plain_values(arrays[name]) for name in fixed.filter_columns}
            matches = matching_rows(self._options.filter, tested, length)
            if not matches.all():
                places = np.flatnonzero(matches)
                arrays = {name: arrays[name].take(arrow_array(places)) for name in self._names}
                length = len(places)
                numbers = places + numbers.start if isinstance(numbers, range) else numbers[places]
        columns = {name: to_column(arrays[name]) for name in self._names}
        lineage = self._options.lineage.columns_for(self._name, numbers)
        return sharing(self._signature, Rows({**columns, **lineage}, length)), numbers


_MAX_MICROSECONDS = (2**63 - 1) // 1000


def _timestamps(column: Any) -> Iterator[Any]:
    """The timestamps in a column, which may be inside of lists and structs."""
    if pa.types.is_timestamp(column.type):
        yield column
    elif pa.types.is_nested(column.type):
        for inner in column.flatten() if pa.types.is_struct(column.type) else [column.values]:
            yield from _timestamps(inner)


# Row groups


class _OpenFile(NamedTuple):
    """An open file, and its version. A remote one keeps no bytes, so that many may be open."""

    file: ParquetFile
    source: Stream | RemoteFile
    version: object

    def footer(self, group: FileUnit) -> ParquetFooter:
        """The footer, which may take much memory, so nothing here keeps it."""
        stream = self.source if isinstance(self.source, Stream) else Stream(RemoteStream(self.source))
        return _unchanged_footer(group, stream, self.version)

    def close(self) -> None:
        if isinstance(self.source, Stream):
            self.source.close()


class GroupSource(NamedTuple):
    """Where row groups of a file are read from.

    Attributes:
        opened: the file.
        stream: the file, as Arrow reads it.
        buffer_bytes: the bytes of a column to read at a time; 0 for all of a row group.
        threads: whether Arrow may use its threads.
    """

    opened: _OpenFile
    stream: Any
    buffer_bytes: int
    threads: bool

    def open(self, footer: ParquetFooter, **options: Any) -> pq.ParquetFile:
        from pyarrow import parquet

        # Not mapped into memory: that is no faster, and kills the process if a file is cut short meanwhile.
        return parquet.ParquetFile(self.stream, metadata=footer.metadata, buffer_size=self.buffer_bytes, **options)


class _OpenSource(Task[GroupSource]):
    """Opens a file. `start` also requests the bytes of a row group, as soon as the budget has room for them."""

    def start(self) -> bool:
        source = self.result_if_done
        if source is None:
            super().start()
            return False
        return not isinstance(source.stream, RemoteRanges) or source.stream.fetch(needed=False)


class _RowGroupReader(UnitReader[FileUnit, _OpenSource]):
    """Reads row groups. A place is [rows of the row group before it]; a resume reads the row group up to there."""

    def __init__(self, form: Parquet, *, threads: bool) -> None:
        self._files = OpenFileCache(partial(_open, form), _OpenFile.close, keeps_objects=True)
        self._form = form
        self._threads = threads
        self._batch_size: BatchSize | None = None
        self._joins = True  # until row groups that were read together had to be read again

    def begin(self, unit: FileUnit, early: bool) -> _OpenSource:
        opening = self._files.task(unit)

        def source() -> GroupSource:
            opened = opening.result()
            stream: Any
            if isinstance(opened.source, Stream):
                stream, buffer = opened.source.raw, _LOCAL_READ_BYTES
            elif (parts := opened.file.byte_ranges(opened.footer(unit), unit.number)) is None:
                stream, buffer = RemoteStream(opened.source), _REMOTE_READ_BYTES
            else:
                stream, buffer = RemoteRanges(opened.source, parts), 0
                stream.fetch(needed=False)
            return GroupSource(opened, stream, buffer, self._threads)

        return _OpenSource(source)

    def joined(self, unit: FileUnit, following: Sequence[object], opened: _OpenSource) -> Section | None:
        # To begin a row group of ten columns takes Arrow and us about as long as to decode 5,000 rows.
        size = self._batch_size
        if not self._joins or size is None or not size.learned or self.is_remote(unit):
            return None
        groups, room = [unit], size.rows() - unit.rows
        for other in cast("Sequence[FileUnit]", following):
            room -= other.rows
            if room < 0 or (other.file, other.seal) != (unit.file, unit.seal):
                break
            groups.append(other)
        if len(groups) == 1:
            return None
        source = opened.result()
        section = source.opened.file.read_row_groups(source.opened.footer(unit), source, groups)
        self._joins = section is not None
        return section

    def sections(self, unit: FileUnit, opened: _OpenSource, place: Place) -> Iterator[Section]:
        (before,) = place
        source = opened.result()
        file, stream, footer = source.opened, source.stream, source.opened.footer(unit)
        if self._batch_size is None:
            self._batch_size = BatchSize(len(self._form.names_to_read()), self._form.row_bytes())
        if isinstance(stream, RemoteRanges):
            stream.fetch(needed=True)
        try:
            yield from file.file.read_row_group(footer, source, unit, before, self._batch_size)
            is_last = unit.number == footer.metadata.num_row_groups - 1
            if isinstance(file.source, RemoteFile) and is_last and file.source.reads > 1:
                RemoteStream(file.source).check_unchanged()
        finally:
            if isinstance(stream, (RemoteRanges, RemoteStream)):
                stream.close()

    def close(self) -> None:
        self._files.close()


def _footer_of(file: File) -> ParquetFooter:
    stream, version = open_version(file)
    with stream:
        return parquet_footer(file, stream, version)


def _contents(footer: ParquetFooter) -> FileContents:
    rows = footer.row_counts()
    return FileContents(footer.schema, footer.seal, rows, [False] * len(rows), footer_bytes=footer.length)


def _values(file: File) -> Mapping[str, Any] | None:
    """The values of columns that the log of a table has of a file; None if there is no log."""
    return file.values if isinstance(file, TableFile) else None


def _open(form: Parquet, group: FileUnit) -> _OpenFile:
    source: Stream | RemoteFile
    if group.file.is_object():  # all runs share it
        source, version = open_object(group.file, group.seal)
        stream = Stream(RemoteStream(source))
    else:
        stream, version = open_version(group.file)
        source = stream if stream.remote is None else stream.remote.file
    try:
        file = ParquetFile(form, _unchanged_footer(group, stream, version), _values(group.file))
    except BaseException:
        stream.close()
        raise
    if source is not stream:
        stream.close()
    return _OpenFile(file, source, version)


def _unchanged_footer(group: FileUnit, stream: Stream, version: object) -> ParquetFooter:
    """The footer of an open file, if it is the one that the row group was found in."""
    reason = "its footer is a different one now"
    try:
        footer = parquet_footer(group.file, stream, version, group.footer_bytes)
        if footer.seal == group.seal:
            return footer
    except DataError as error:
        reason = str(error)
    raise changed_error(group.file.path, reason=reason)
