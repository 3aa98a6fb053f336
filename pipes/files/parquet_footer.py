"""Footers of Parquet files: what they tell of rows and columns, and filters on their statistics."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ..core.arrow import arrow_scalar
from ..core.lazy import pa, pc
from ..errors import ArgumentTypeError, DataError, FeedpipeError
from ..formats.columns import arrow_errors, check_encoding_of_names, format_names, read_error
from ..formats.expressions import check_expression, filter_problem, used_columns
from ..formats.streams import read_tail, seal_of
from ..storage.file import File, Stream
from ..storage.filesystem import locate
from ..storage.mapping import FileValues

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_TAIL_BYTES = 2**16  # read at once if the length of the footer is not known: most are shorter
_ENDING_BYTES = 8  # the length of the footer and the magic number, which follow it
_LEAST_BYTES = 12  # of a footer, and the magic number at the beginning
_OBJECT_BYTES = 2**14  # a footer of two columns and one row group takes 12 KiB
MAX_KEPT_BYTES = 2**28
"""The memory that footers take in a process."""
MAX_FLOAT_COLUMNS = 4
"""The most float columns in a filter for which all `nan_cases` are tried: 16 cases."""


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
            raise read_error(error, f"{name}, its footer,") from error

    @property
    def length(self) -> int:
        """Its bytes in the file."""
        return len(self._data) - len(_MAGIC)

    @property
    def has_encrypted_columns(self) -> bool:
        """Whether the footer has a signature, as one of a file with encrypted columns has.

        pyarrow ends the process if it is asked for the metadata of such a column, and nothing tells which these are.
        """
        return self.metadata.serialized_size != self.length - _ENDING_BYTES

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

    def int96_columns(self, columns: Sequence[str] | None) -> list[str]:
        """Those of these columns that hold timestamps of 96 bits; None for all."""
        schema = self.metadata.schema
        old = [schema.column(k).path for k in range(len(schema)) if schema.column(k).physical_type == "INT96"]
        return old if columns is None else [path for path in old if not {*columns}.isdisjoint(_with_parents(path))]

    def byte_ranges(self, group: int, columns: Sequence[str] | None) -> list[tuple[int, int]] | None:
        """Where in the file the columns of a row group begin and end; None if some of its columns are encrypted."""
        if self.has_encrypted_columns:
            return None
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
            constants: the values of those columns that the file does not have, if they are known.
        """
        if self.has_encrypted_columns:
            return None
        inside = [name for name in types if name in self.schema.names]
        # If a column is cast, the filter compares other values than the statistics hold.
        if any(self.schema.field(name).type != types[name] for name in inside):
            return None
        floats = [name for name in inside if pa.types.is_floating(types[name])]
        if len(floats) > MAX_FLOAT_COLUMNS or any(pa.types.is_nested(types[name]) for name in inside):
            return None
        schema = self.schema
        for name in types:
            if name not in inside:
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
    """Read the footer of a file; if its length is known and not 0, with one request."""
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
    """The footer of an open file of a version. A process parses each once, while there is memory for it.

    `length` is that of the footer when it was last read; 0 if it is not known.
    """
    return _cache.get(file, version, lambda: read_parquet_footer(stream, file.path, length))


def listed_footer(file: File) -> ParquetFooter | None:
    """The footer of a file on S3, in one request; None if its listing does not say its size and time.

    A file is looked up when it is opened. Here it is not: if it is another one when it is opened for its rows, the
    footer is read again then.
    """
    version = file.listed_version()
    if version is None:
        return None
    size, _ = cast("tuple[int, int]", version)

    def read() -> ParquetFooter:
        data = _written_footer(file, size)
        if data is not None:
            return ParquetFooter(file.path, data, size)
        with file.open(None) as stream:  # which has errors that name what is wrong
            return read_parquet_footer(stream, file.path)

    return _cache.get(file, version, read)


def _written_footer(file: File, size: int) -> bytes | None:
    """The footer of a file of a known size, after the bytes with which a file begins; None if it cannot be read.

    pyarrow reads it without a request for the size, but gives only what is in it. What it writes of that is the footer
    as it was, if it has as many bytes: what pyarrow does not know would be left out.
    """
    from pyarrow.dataset import ParquetFileFormat

    place = locate(file.path, file.filesystem)
    written = io.BytesIO()
    try:
        form: Any = ParquetFileFormat()
        metadata = form.make_fragment(place.path, place.filesystem, file_size=size).metadata
        metadata.write_metadata_file(written)
    except arrow_errors():
        return None
    data = written.getvalue()
    return data if len(data) == len(_MAGIC) + metadata.serialized_size + 8 else None


# Filters and statistics.


def check_filter(value: object) -> None:
    """Check that `filter=` is None or an expression over names."""
    if value is None:
        return
    if not isinstance(value, pc.Expression):
        raise ArgumentTypeError(
            "`filter` must be an expression of `pyarrow.compute`, such as `pc.field('x') > 3`, but got: "
            f"{value!r}; a function of rows is for `.filter`"
        )
    check_expression("filter", value)


def constant_values(values: Mapping[str, Any]) -> Any:
    """The expression that is true of all rows of a file in which columns have these values."""
    expression: Any = pc.scalar(True)
    for name, value in values.items():
        expression &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
    return expression


def may_match(expression: Any, types: Mapping[str, pa.DataType], values: Mapping[str, Any]) -> bool:
    """Whether rows of a file may match a filter, without a look at the file.

    Args:
        expression: the filter.
        types: of the columns in it.
        values: of columns that have one value in all rows.
    """
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat

    form: Any = ParquetFileFormat()
    constant = constant_values({name: value for name, value in values.items() if name in types})
    fragment = form.make_fragment(pa.BufferReader(b""), partition_expression=constant)
    dataset: Any = FileSystemDataset([fragment], pa.schema([*types.items()]), form)
    try:
        return any(True for _ in dataset.get_fragments(filter=expression))
    except arrow_errors():  # reading the rows raises the error
        return True


def nan_cases(floats: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The sets of float columns that may be NaN at the same time. Arrow takes NaN to lie within bounds; it does not."""
    return chain.from_iterable(combinations(floats, count) for count in range(len(floats) + 1))


def is_nan(name: str, kind: pa.DataType) -> Any:
    """The expression by which Arrow takes a column of floats for NaN."""
    return pc.field(name) == arrow_scalar(float("nan"), kind)


def columns_in_filter(
    expression: Any, selected: Mapping[str, pa.DataType], whole: Mapping[str, pa.DataType], source: str
) -> tuple[str, ...]:
    """The columns that a filter uses; a `DataError` if it does not fit them.

    Args:
        expression: the filter.
        selected: the columns of the rows; perhaps only a part of a column of structs.
        whole: all columns.
        source: the file that has them.
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
