"""CSV by Arrow: chunks with names and types fixed, and what is wrong where a chunk cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.rows import BlockRows
from ...errors import ArgumentError, DataError
from ..tables.arrow import ONE_BLOCK, as_rows, source
from ..tables.inference import Head
from ..text.chunks import Chunk, ChunkReader, brief, first_failing
from .quotes import Ends, record_ends

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc


class Dialect(NamedTuple):
    """How values are set apart."""

    delimiter: bytes
    quote: bytes | None
    nulls: tuple[str, ...]
    newlines: bool
    """Whether quoted values may hold line breaks."""

    @property
    def multiline(self) -> bytes | None:
        """The quote, where a line break between two does not end the record."""
        return self.quote if self.newlines else None

    def ends(self, data: bytes) -> Ends:
        return record_ends(data, self.delimiter, self.multiline)

    def unclosed(self, data: bytes, *, last: bool) -> tuple[int, str] | None:
        """Where the first record begins that a quote opened in it reaches out of, and what is wrong with that.

        Args:
            data: begins with a record; and ends with one, unless it is the `last` of the file.
        """
        if self.quote is None or self.quote not in data or (self.newlines and not last):
            return None
        ends, within, unclosed = record_ends(data, self.delimiter, self.quote)
        faults = [] if self.newlines else within[:1].tolist()
        faults += [len(data)] if unclosed else []
        if not faults:
            return None
        before = np.searchsorted(ends, faults[0])
        start = int(ends[before - 1]) if before else 0
        said = "a quote is opened in the record that begins here, and"
        plain = "`quote=None` takes quotes for plain characters"
        if self.newlines:
            return start, f"{said} never closed; {plain}"
        return start, f"{said} not closed on its line; `newlines_in_values=True` reads such values, {plain}"

    def records(self, chunk: Chunk) -> Iterator[tuple[int, int, int]]:
        """Line, start and end of each record that is no empty line."""
        line, start = chunk.at.line, 0
        for end in [*self.ends(chunk.data).ends.tolist(), len(chunk.data)]:
            if chunk.data[start:end].strip(b"\r\n"):
                yield line, start, end
            line += chunk.data.count(b"\n", start, end)
            start = end

    def options(self) -> pc.ParseOptions:
        from pyarrow.csv import ParseOptions

        options = ParseOptions(delimiter=self.delimiter.decode(), newlines_in_values=True)
        options.quote_char = self.quote.decode() if self.quote else False
        return options


@dataclass(frozen=True)
class Types:
    """Names and types, fixed once for all files."""

    names: tuple[str, ...]
    """All columns of the first file, or of all files."""
    types: dict[str, pa.DataType]
    """Those that are read, in their order."""
    inferred: frozenset[str]
    """Those whose type the user did not give."""
    source: str
    """Where they come from."""


def infer(
    dialect: Dialect,
    names: list[str],
    wanted: Sequence[str],
    given: Mapping[str, pa.DataType],
    chunk: Chunk | None,
    file: str,
) -> Head:
    """The types of the columns `wanted`, from the head of a file.

    Where the head is malformed, the rows before that are what counts: a run delivers them, then it tells the error.
    """
    import pyarrow as pa

    found = {name: given.get(name, pa.null()) for name in names}
    typed = {name: kind for name, kind in given.items() if name in wanted}
    table: pa.Table | None = None
    if chunk is not None:
        unclosed = dialect.unclosed(chunk.data, last=False)
        head = chunk.data if unclosed is None else chunk.data[: unclosed[0]]
        table = _readable(dialect, _table_reader(dialect, names, wanted, typed), head)
    rows = table is not None and table.num_rows > 0
    for field in table.schema if table is not None and rows else ():
        if not (pa.types.is_binary(field.type) and field.name not in given):  # bytes that are no text
            found[field.name] = field.type
    return Head(file, found, rows)


def _readable(dialect: Dialect, read: Callable[[bytes], pa.Table], data: bytes) -> pa.Table | None:
    """The table of `data` up to its first malformed record, if there is one before."""
    import pyarrow as pa

    try:
        return read(data)
    except pa.ArrowInvalid:
        ends = [*dialect.ends(data).ends.tolist(), len(data)]
        bad = first_failing(ends, lambda end: read(data[:end]))
        return read(data[: ends[bad - 1]]) if bad else None
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that text cannot have: {error}") from None


def fields(dialect: Dialect, record: bytes) -> list[bytes]:
    """The values of one record, as they are.

    Raises:
        DataError: it is no record.
    """
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    most = record.count(dialect.delimiter) + 1
    ended = record if record.endswith((b"\r", b"\n")) else record + b"\n"
    try:
        table = read_csv(
            source(ended),
            read_options=ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=ONE_BLOCK),
            parse_options=dialect.options(),
            convert_options=ConvertOptions(column_types={f"f{i}": pa.binary() for i in range(most)}),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{error}: {brief(record)}") from error
    return [column[0].as_py() for column in table.columns]


class Table:
    """The table of one file.

    Args:
        dialect: how values are set apart.
        fixed: the columns wanted, and their types.
        names: the names of this file's columns, in its order.
        reader: of the file.
    """

    def __init__(self, dialect: Dialect, fixed: Types, names: list[str], reader: ChunkReader) -> None:
        self._dialect = dialect
        self._fixed = fixed
        self._names = names
        self._reader = reader
        self._read = _table_reader(dialect, names, list(fixed.types), fixed.types)

    def parse(self, chunk: Chunk) -> tuple[BlockRows, DataError | None]:
        """The rows up to the first malformed one, and what is wrong with that."""
        found = self._dialect.unclosed(chunk.data, last=chunk.last)
        if found is None:
            return self._rows(chunk, chunk.data)
        start, said = found
        rows, error = self._rows(chunk, chunk.data[:start])
        return rows, error or DataError(f"{self._reader.where(chunk.place(start))}: {said}")

    def _rows(self, chunk: Chunk, data: bytes) -> tuple[BlockRows, DataError | None]:
        import pyarrow as pa

        if not data:
            return [], None
        try:
            return as_rows(self._read(data)), None
        except pa.ArrowInvalid:
            pass
        ends = [*self._dialect.ends(data).ends.tolist(), len(data)]
        bad = first_failing(ends, lambda end: self._read(data[:end]))
        start = ends[bad - 1] if bad else 0
        rows: BlockRows = as_rows(self._read(data[:start])) if start else []
        return rows, self._explain(data[start : ends[bad]], self._reader.where(chunk.place(start)))

    def _explain(self, record: bytes, place: str) -> DataError:
        import pyarrow as pa

        try:
            values = fields(self._dialect, record)
            if len(values) != len(self._names):
                said = f"{_counted(len(values), 'value')} where there are {_counted(len(self._names), 'column')}"
                return DataError(
                    f"{place}: {said}: {brief(record)}; values that hold the delimiter or a line break need quotes, "
                    "and `delimiter=` and `quote=` say what those are"
                )
            for name, kind in self._fixed.types.items():
                read = _table_reader(self._dialect, self._names, [name], {name: kind})
                try:
                    read(record)
                except pa.ArrowInvalid:
                    return self._misfit(place, name, values[self._names.index(name)], kind)
            read = _table_reader(self._dialect, self._names, list(self._fixed.types), self._fixed.types)
            read(record)
        except DataError as error:
            return DataError(f"{place}: {error}")
        except pa.ArrowInvalid as error:
            return DataError(f"{place}: {error}: {brief(record)}")
        return DataError(f"{place}: this record, or one shortly before it, cannot be read: {brief(record)}")

    def _misfit(self, place: str, name: str, value: bytes, kind: pa.DataType) -> DataError:
        said = f"{place}, column {name!r}: {brief(value)} is not"
        if str(kind) in ("string", "large_string", "string_view"):
            return DataError(f"{said} UTF-8; `schema={{{name!r}: 'binary'}}` takes the bytes as they are")
        wider = "float64" if str(kind) in ("int64", "uint64") or not _is(int, value) else "int64"
        other = wider if str(kind).startswith(("int", "uint")) and _is(float, value) else "string"
        repair = f"`schema={{{name!r}: {other!r}}}` gives another type, `null_values=` names what stands for no value"
        if name in self._fixed.inferred:
            repair = f"its type was inferred from the first rows of {self._fixed.source}; {repair}"
        return DataError(f"{said} {kind}; {repair}")


def _table_reader(
    dialect: Dialect, names: list[str], wanted: Sequence[str], types: Mapping[str, pa.DataType]
) -> Callable[[bytes], pa.Table]:
    """A function from bytes to a table."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    if not wanted:  # Arrow takes that for all; one is read, to count the rows by
        wanted, types = names[:1], dict.fromkeys(names[:1], pa.binary())
    read_options = ReadOptions(use_threads=False, column_names=names, block_size=ONE_BLOCK)
    parse_options = dialect.options()
    convert_options = ConvertOptions(
        column_types=dict(types), include_columns=list(wanted), null_values=list(dialect.nulls)
    )

    def read(data: bytes) -> pa.Table:
        return read_csv(
            source(data),
            read_options=read_options,
            parse_options=parse_options,
            convert_options=convert_options,
        )

    return read


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _is(kind: type[int] | type[float], value: bytes) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True
