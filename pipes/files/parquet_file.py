"""One Parquet file: options, row groups, footer, and filters on statistics."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.block import row_width
from ..core.cursor import Json
from ..core.rows import Rows, RowSignature, sharing
from ..errors import ArgumentTypeError, DataError, FeedpipeError, with_call_site
from ..formats.columns import (
    TableHead,
    UnifiedSchema,
    arrow_errors,
    check_encoding_of_names,
    format_names,
    read_error,
    to_column,
)
from ..formats.expressions import check_expression, expression_identity, filter_problem, matching_rows, used_columns
from ..formats.streams import read_tail, seal_of
from ..formats.table_format import TableFormat
from ..storage.file import File, Stream
from ..storage.mapping import FileValues

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_TAIL_BYTES = 2**16  # read at once if the length of the footer is not known: most are shorter
_LEAST_BYTES = 12  # of a footer, and the magic number at the beginning
_OBJECT_BYTES = 2**14  # a footer of two columns and one row group takes 12 KiB
MAX_FETCH_BYTES = 2**26
"""The largest part of a row group that is fetched at once from remote storage; a larger one is read bit by bit."""
MAX_KEPT_BYTES = 2**28
"""The memory that footers take in a process."""
MAX_FLOAT_COLUMNS = 4
"""The most float columns in a filter for which all `nan_cases` are tried: 16 cases."""


class LaterChoice(NamedTuple):
    """The columns that a `select` keeps, which follows in the chain, and the filters between."""

    columns: tuple[str, ...]
    filters: tuple[Any, ...] = ()


class LaterFilter(NamedTuple):
    """A filter that follows in the chain. It tests all rows itself, so here it only leaves out row groups."""

    expression: Any
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Parquet(TableFormat):
    """The arguments of `parse_parquet`."""

    kind: ClassVar[str] = "parse_parquet"
    arguments: ClassVar[tuple[str, ...]] = ("columns", "filter", "path_column", "row_column", "unify_schemas")
    int96_unit: ClassVar[str | None] = None
    """The unit of timestamps of 96 bits; None for nanoseconds."""

    filter: Any = None
    later_filters: tuple[LaterFilter, ...] = ()
    """Filters that follow in the chain; once names and types are fixed, those that fit the columns."""
    later_choice: LaterChoice | None = None
    """What follows in the chain and uses some columns only."""
    used_names: tuple[str, ...] | None = None
    """These columns, once names and types are fixed; the others are not read. None for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filter(self.filter)

    def argument_code(self, name: str) -> str | None:
        if name != "filter":
            return super().argument_code(name)
        return None if self.filter is None else " ".join(str(self.filter).split())

    def identity(self) -> dict[str, Json]:
        return {**super().identity(), "filter": filter_identity(self.filter)}

    @property
    def uses_statistics(self) -> bool:
        """Whether row groups are left out by their statistics."""
        return self.filter is not None or bool(self.later_filters)

    def filters(self) -> Iterator[tuple[Any, dict[str, pa.DataType]]]:
        """The filter and those that follow in the chain, each with its columns. Names and types are fixed."""
        fixed = self.require_fixed_schema(self.kind)
        own = [] if self.filter is None else [LaterFilter(self.filter, fixed.filter_columns)]
        for expression, columns in [*own, *self.later_filters]:
            yield expression, {name: fixed.types[name] for name in columns}

    def with_later_filter(self, expression: Any) -> Parquet:
        """With a further filter that follows in the chain."""
        return replace(self, later_filters=(*self.later_filters, LaterFilter(expression)))

    def with_later_choice(self, choice: LaterChoice) -> Parquet:
        """With a `select` that follows in the chain. Columns that the user named are read in any case."""
        return self if self.columns is not None else replace(self, later_choice=choice)

    def names_to_read(self) -> tuple[str, ...]:
        """The columns of the rows, without path and row number, that something uses. Names and types are fixed."""
        return self.require_fixed_schema(self.kind).names if self.used_names is None else self.used_names

    def row_bytes(self) -> int | None:
        """The bytes of each row in the columns of a file; None if rows differ in size."""
        import pyarrow as pa

        fixed = self.require_fixed_schema(self.kind)
        names = {*self.names_to_read(), *fixed.filter_columns}
        return row_width(pa.schema([(name, kind) for name, kind in fixed.file_types.items() if name in names]))

    def row_schema(self) -> pa.Schema | None:
        schema = super().row_schema()
        if schema is None or self.used_names is None:
            return schema
        import pyarrow as pa

        names = {*self.used_names, *self.lineage}
        return pa.schema([field for field in schema if field.name in names])

    def fix(self, heads: Iterable[TableHead | None], paths: Iterable[str]) -> Parquet:
        fixed = super().fix(heads, paths)
        if fixed.fixed_schema is None:
            return fixed
        types = fixed.fixed_schema.row_types
        fitting = (later for later in self.later_filters if filter_problem(later.expression, types) is None)
        filters = tuple(LaterFilter(later.expression, (*used_columns(later.expression, types),)) for later in fitting)
        return replace(fixed, later_filters=filters, used_names=self._used_names(types))

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

    def filter_columns(
        self, source: str, types: Mapping[str, pa.DataType], whole: UnifiedSchema, folders: Mapping[str, pa.DataType]
    ) -> Sequence[str]:
        return (
            () if self.filter is None else columns_in_filter(self.filter, types, {**whole.types(), **folders}, source)
        )


class BatchSize:
    """The rows of a batch: by the types of the columns, else by the rows read, as compressed sizes tell little.

    Args:
        columns: the number of columns that are read.
        row_bytes: the bytes of each row; None if rows differ in size.
    """

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


class RowGroupPart(NamedTuple):
    """Some rows of a row group, after the filter.

    Attributes:
        rows: those that match the filter.
        numbers: their numbers in the file, from 0.
        stop: the number of rows of the row group read so far, these included.
    """

    rows: Rows
    numbers: npt.NDArray[np.int64] | range
    stop: int


class ParquetFile:
    """Reads a file, given what is fixed for all files.

    It keeps no reference to the footer, which may take much memory: each call is given it.

    Args:
        options: with names and types fixed.
        footer: of the file.
        values: of columns that the file does not hold, from the log of a table; None if its folders say them.

    Raises:
        DataError: its columns do not fit those fixed.
    """

    def __init__(self, options: Parquet, footer: ParquetFooter, values: Mapping[str, Any] | None = None) -> None:
        self._options = options
        self._fixed = options.require_fixed_schema(footer.name)
        self._name = footer.name
        columns = self._fixed.columns_in(footer)
        self._names = options.names_to_read()
        read = self._fixed.read_columns
        if self._names != self._fixed.names:
            read = [name for name in self._fixed.file_types if name in {*self._names, *self._fixed.filter_columns}]
        self._read = None if read is None else footer.existing(read)
        self._constants = self._fixed.constants(footer.name, columns, values)
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
        """Where the columns to read of a row group begin and end; None if they are too large to fetch at once."""
        ranges = footer.byte_ranges(group, self._read)
        return ranges if sum(end - begin for begin, end in ranges) <= MAX_FETCH_BYTES else None

    def read_row_group(
        self,
        footer: ParquetFooter,
        stream: object,
        group: int,
        first: int,
        skip: int,
        size: BatchSize,
        *,
        buffer: int,
        threads: bool,
    ) -> Iterator[RowGroupPart]:
        """Read the rows of a row group without the first `skip`.

        Args:
            footer: of the file.
            stream: the file, as Arrow reads it.
            group: the number of the row group.
            first: the number in the file of its first row.
            skip: the number of its rows to leave out.
            size: the number of rows to read at a time.
            buffer: the bytes of a column to read at a time; 0 for all of a row group.
            threads: whether Arrow may use its threads.

        Raises:
            SourceError, DataError: the rows cannot be read; those before come first.
        """
        place, expected = 0, footer.metadata.row_group(group).num_rows
        while True:
            learning = not size.learned
            for batch in self._batches(footer, stream, group, size.rows(), buffer, threads=threads):
                size.learn(batch)
                start, stop = place, place + batch.num_rows
                place = stop
                if stop > skip:
                    cut = max(0, skip - start)
                    parts = [self._part(batch.slice(cut), first + start + cut, stop)]
                    # Arrow then writes the next batch into memory that is in the cache, which saves 20 % of the time.
                    del batch
                    yield parts.pop()
                if learning:
                    break
            if not (learning and 0 < place < expected):
                break
            skip, place = max(skip, place), 0  # read again, with batches of the size now learned
        if place != expected:
            raise DataError(
                f"{self._name}, row group {group}, should have {expected} rows and has {place}: it is damaged"
            )

    def _batches(
        self, footer: ParquetFooter, stream: object, group: int, rows: int, buffer: int, *, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            # Not mapped into memory: that is no faster, and kills the process if a file is cut short meanwhile.
            file = parquet.ParquetFile(
                cast("Any", stream),
                metadata=footer.metadata,
                pre_buffer=False,
                buffer_size=buffer,
                page_checksum_verification=True,
                coerce_int96_timestamp_unit=self._options.int96_unit,
            )
            # A single thread of Arrow's would do the same work, but in the cache of another core.
            use_threads = threads and pa.cpu_count() > 1
            batches = file.iter_batches(rows, row_groups=[group], columns=self._read, use_threads=use_threads)
            while (batch := next(batches, None)) is not None:
                batch.validate(full=True)  # Arrow does not check that text is UTF-8
                validated = [batch]
                del batch
                yield validated.pop()
        except (FeedpipeError, GeneratorExit):  # while Python exits, `arrow_errors` can import nothing
            raise
        except arrow_errors() as error:
            raise read_error(error, f"{self._name}, row group {group},") from error

    def _part(self, batch: pa.RecordBatch, first: int, stop: int) -> RowGroupPart:
        """The rows of a batch that match the filter; `first` is the number in the file of its first row."""
        import pyarrow as pa

        fixed, length = self._fixed, batch.num_rows
        arrays: dict[str, Any] = {}
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            arrays[name] = fixed.cast(array, name, self._name)
        for name, value in self._constants.items():
            arrays[name] = pa.repeat(value, length)
        numbers: npt.NDArray[np.int64] | range = range(first, first + length)
        if self._options.filter is not None:
            matches = matching_rows(self._options.filter, {n: arrays[n] for n in fixed.filter_columns}, length)
            if not matches.all():
                places = np.flatnonzero(matches)
                arrays = {name: arrays[name].take(places) for name in self._names}
                numbers, length = places + first, len(places)
        columns = {name: to_column(arrays[name]) for name in self._names}
        lineage = self._options.lineage.columns_for(self._name, numbers)
        return RowGroupPart(sharing(self._signature, Rows({**columns, **lineage}, length)), numbers, stop)


class ParquetFooter:
    """The end of a Parquet file.

    Attributes:
        name: the name of the file, for errors.
        seal: a number that changes if the file does.
        schema: names and types of the columns, as Arrow has them.
        metadata: the footer as pyarrow has it.
    """

    def __init__(self, name: str, data: bytes, size: int) -> None:
        from pyarrow import BufferReader
        from pyarrow.parquet import ParquetFile

        self.name = name
        self._data = data
        self.seal = seal_of(data, size)
        try:
            self._file: pq.ParquetFile = ParquetFile(cast("Any", BufferReader(data)))
            self.metadata = self._file.metadata
            self.schema: pa.Schema = self._file.schema_arrow.remove_metadata()
            check_encoding_of_names(self.schema.types)
        except arrow_errors() as error:
            message = " ".join(str(error).split())
            raise DataError(f"{name} is damaged: its footer cannot be read: {message}") from error

    @property
    def length(self) -> int:
        """Its bytes in the file."""
        return len(self._data) - len(_MAGIC)

    @property
    def memory_bytes(self) -> int:
        """Roughly the memory that it takes: its bytes, three times as much for the parsed form, and some objects."""
        return 4 * len(self._data) + _OBJECT_BYTES

    def row_counts(self) -> list[int]:
        """The number of rows of each row group."""
        return [self.metadata.row_group(k).num_rows for k in range(self.metadata.num_row_groups)]

    def existing(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that the file has; a dot leads into a column of structs."""
        existing: set[str] = set()
        for column in range(len(self._file.schema)):
            existing.update(_with_parents(self._file.schema.column(column).path))
        return [name for name in names if name in existing]

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """Names and types of these columns as they are read; None for all."""
        if columns is None:
            return self.schema
        table = self._file.read_row_groups([], columns=list(columns), use_threads=False)
        return table.schema.remove_metadata()

    def byte_ranges(self, group: int, columns: Sequence[str] | None) -> list[tuple[int, int]]:
        """Where in the file the columns of a row group begin and end."""
        row_group = self.metadata.row_group(group)
        selected = None if columns is None else frozenset(columns)
        ranges: list[tuple[int, int]] = []
        for column in (row_group.column(k) for k in range(row_group.num_columns)):
            if selected is None or not selected.isdisjoint(_with_parents(column.path_in_schema)):
                begin = column.data_page_offset
                if column.has_dictionary_page:
                    begin = min(begin, column.dictionary_page_offset or begin)
                ranges.append((begin, begin + column.total_compressed_size))
        return ranges

    def matching_row_groups(
        self, expression: Any, types: Mapping[str, pa.DataType], constants: Mapping[str, Any]
    ) -> list[int] | None:
        """The row groups in which rows may match; None if their statistics cannot tell.

        Arrow compares the expression with the minimum, the maximum and the number of nulls of a column. Two of its
        assumptions are wrong, so more cases count as matches:
        - It takes minimum and maximum for bounds of all values, but NaN lies outside of them; see `nan_cases`.
        - If all values are zero, it takes them for -0.0, as the bound says, and `isin` tells -0.0 from 0.0.

        Args:
            expression: the filter.
            types: the columns in it, with their types in the table that is filtered.
            constants: the values of those columns that the file does not have.
        """
        import pyarrow as pa

        inside = [name for name in types if name not in constants]
        # If a column is cast, the filter compares other values than the statistics hold.
        if any(self.schema.field(name).type != types[name] for name in inside):
            return None
        floats = [name for name in inside if pa.types.is_floating(types[name])]
        if len(floats) > MAX_FLOAT_COLUMNS or any(pa.types.is_nested(types[name]) for name in inside):
            return None
        schema = self.schema
        for name in constants:
            schema = schema.append(pa.field(name, types[name]))
        constant = constant_values(constants)
        try:
            groups = {group for group in range(self.metadata.num_row_groups) if self._may_be_zero(group, floats)}
            for nan_columns in nan_cases(floats):
                case = constant
                for name in nan_columns:
                    case &= is_nan(name, types[name])
                groups.update(self._satisfiable(expression, case, schema))
        except arrow_errors():  # reading the rows raises the error
            return None
        return sorted(groups)

    def _may_be_zero(self, group: int, names: Sequence[str]) -> bool:
        """Whether one of these columns is zero in each row, by its statistics."""
        row_group = self.metadata.row_group(group)
        columns = (row_group.column(k) for k in range(row_group.num_columns))
        bounds = [column.statistics for column in columns if column.path_in_schema in names]
        return any(bound is not None and bound.has_min_max and bound.min == 0 == bound.max for bound in bounds)

    def _satisfiable(self, expression: Any, constant: Any, schema: pa.Schema) -> list[int]:
        """The row groups that Arrow does not rule out, given what is `constant` in the file."""
        from pyarrow import BufferReader
        from pyarrow.dataset import ParquetFileFormat

        form: Any = ParquetFileFormat()
        fragment = form.make_fragment(BufferReader(self._data), partition_expression=constant)
        return [group.id for group in fragment.subset(filter=expression, schema=schema).row_groups]


def _with_parents(path: str) -> list[str]:
    """The path of a column, and those of the structs that it is a part of."""
    return [path, *(path[:at] for at, char in enumerate(path) if char == ".")]


def read_parquet_footer(stream: BinaryIO, name: str, length: int = 0) -> ParquetFooter:
    """Read the footer of a file.

    Args:
        stream: the file.
        name: of the file, for errors.
        length: that of the footer if it is known, so that one request fetches it; else 0.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no Parquet file, or is cut short, damaged or encrypted.
    """
    try:
        size = stream.seek(0, io.SEEK_END)
        data = read_tail(stream, name, size, max(length, _LEAST_BYTES) if length else _TAIL_BYTES)
        if not size:
            raise DataError(f"{name} is empty, but a Parquet file has a footer; leave the file out")
        if data[-4:] == _ENCRYPTED:
            raise DataError(f"{name} is encrypted: its footer cannot be read without a key; decrypt the file first")
        if data[-4:] != _MAGIC:
            raise DataError(f"{name} is no Parquet file, or is cut short: it does not end with {_MAGIC.decode()!r}")
        length = int.from_bytes(data[-8:-4], "little") + 8
        if size < _LEAST_BYTES or length > size - 4:
            raise DataError(f"{name} is damaged: its footer would be longer than the file, which has {size} bytes")
        data = data if length <= len(data) else read_tail(stream, name, size, length)
    except FeedpipeError:
        raise
    except arrow_errors() as error:
        raise read_error(error, name) from error
    return ParquetFooter(name, _MAGIC + data[-length:], size)


_cache = FileValues[ParquetFooter](MAX_KEPT_BYTES, lambda footer: footer.memory_bytes)
os.register_at_fork(after_in_child=_cache.clear)


def parquet_footer(file: File, stream: Stream, version: object, length: int = 0) -> ParquetFooter:
    """The footer of an open file. A process parses each once, while there is memory for it.

    Args:
        file: the file.
        stream: the open file.
        version: that of the stream.
        length: that of the footer when it was last read; 0 if it is not known.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no Parquet file, or is cut short, damaged or encrypted.
    """
    return _cache.get(file, version, lambda: read_parquet_footer(stream, file.path, length))


# Filters and statistics.


def check_filter(value: object) -> None:
    """Check that `filter=` is None or an expression over names."""
    if value is None:
        return
    import pyarrow.compute as pc

    if not isinstance(value, pc.Expression):
        raise ArgumentTypeError(
            with_call_site(
                "`filter` must be an expression of `pyarrow.compute`, such as `pc.field('x') > 3`, but got: "
                f"{value!r}; a function of rows is for `.filter`"
            )
        )
    check_expression("filter", value)


def filter_identity(expression: Any) -> Json:
    """What a state keeps of a filter."""
    return None if expression is None else expression_identity(expression)


def constant_values(values: Mapping[str, Any]) -> Any:
    """The expression that is true of all rows of a file in which columns have these values."""
    import pyarrow.compute as pc

    expression: Any = pc.scalar(True)
    for name, value in values.items():
        expression &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
    return expression


class ColumnBounds(NamedTuple):
    """The bounds of the values of a column of a file, except NaN.

    Attributes:
        low, high: scalars of the column's type; None if all values are null.
        nulls: whether there may be nulls.
    """

    low: Any
    high: Any
    nulls: bool

    def expression(self, name: str) -> Any:
        """The expression that is true of all rows."""
        import pyarrow.compute as pc

        column: Any = pc.field(name)
        if self.low is None:
            return column.is_null()
        within = column >= self.low, column <= self.high
        # Arrow understands a bound that may be null, but not two of them.
        low, high = (bound | column.is_null() if self.nulls else bound for bound in within)
        return low & high


def may_match(
    expression: Any,
    types: Mapping[str, pa.DataType],
    values: Mapping[str, Any],
    bounds: Mapping[str, ColumnBounds] = MappingProxyType({}),
) -> bool:
    """Whether rows of a file may match a filter, given some of its columns, without a look at the file.

    Args:
        expression: the filter.
        types: of the columns in it.
        values: of columns that have one value in all rows.
        bounds: of other columns.
    """
    import pyarrow as pa
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat

    form: Any = ParquetFileFormat()
    constant = constant_values({name: value for name, value in values.items() if name in types})
    floats = [name for name in bounds if pa.types.is_floating(types[name])]
    if len(floats) > MAX_FLOAT_COLUMNS:
        bounds = {name: bound for name, bound in bounds.items() if name not in floats}
        floats = []
    fragments: list[Any] = []
    for nan_columns in nan_cases(floats):
        case = constant
        for name, bound in bounds.items():
            case &= is_nan(name, types[name]) if name in nan_columns else bound.expression(name)
        fragments.append(form.make_fragment(pa.BufferReader(b""), partition_expression=case))
    dataset: Any = FileSystemDataset(fragments, pa.schema([*types.items()]), form)
    try:
        return any(True for _ in dataset.get_fragments(filter=expression))
    except arrow_errors():  # reading the rows raises the error
        return True


def nan_cases(floats: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The sets of float columns that may be NaN at the same time. Arrow takes NaN to lie within bounds; it does not."""
    return chain.from_iterable(combinations(floats, count) for count in range(len(floats) + 1))


def is_nan(name: str, kind: pa.DataType) -> Any:
    """The expression by which Arrow takes a column of floats for NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.field(name) == pa.scalar(float("nan"), kind)


def columns_in_filter(
    expression: Any, selected: Mapping[str, pa.DataType], whole: Mapping[str, pa.DataType], source: str
) -> tuple[str, ...]:
    """Find the columns that a filter uses.

    Args:
        expression: the filter.
        selected: the columns of the rows; perhaps only a part of a column of structs.
        whole: all columns.
        source: the file that has them.

    Raises:
        DataError: the filter does not fit the columns.
    """
    problem = filter_problem(expression, whole)
    if problem is not None:
        raise DataError(f"`filter` does not fit the columns of {source}: {problem}; there are {format_names([*whole])}")
    types = {**whole, **selected}
    if (problem := filter_problem(expression, types)) is not None:
        raise DataError(
            f"`filter` needs a part of a column that `columns` leaves out; name the whole column there: {problem}"
        )
    return tuple(used_columns(expression, types))
