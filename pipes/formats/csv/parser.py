"""CSV by Arrow: it infers types, parses chunks with fixed names and types, and explains malformed records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.rows import BlockRows
from ...errors import ArgumentError, DataError
from ..tables.arrow import BLOCK_BYTES, arrow_source, to_rows
from ..tables.sampled_table import SampledHead
from ..text.chunks import Chunk, ChunkReader, first_failing, shorten
from .odd_values import log_odd_values
from .quotes import RecordEnds, record_ends

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc


class Dialect(NamedTuple):
    """How values are delimited and quoted, and which of them are null."""

    delimiter: bytes
    quote: bytes | None
    nulls: tuple[str, ...]
    newlines: bool
    """Whether quoted values may hold line breaks."""

    @property
    def multiline(self) -> bytes | None:
        """The quote, if values in quotes may hold line breaks."""
        return self.quote if self.newlines else None

    def ends(self, data: bytes) -> RecordEnds:
        return record_ends(data, self.delimiter, self.multiline)

    def unclosed_quote(self, data: bytes, *, last: bool) -> tuple[int, str] | None:
        """Find the first record with a quote that is not closed within it.

        Args:
            data: whole records; the last one may lack its end if it is the `last` of the file.

        Returns:
            Where that record begins, and what is wrong with it; None if there is no such record.
        """
        if self.quote is None or self.quote not in data or (self.newlines and not last):
            return None
        ends, quoted_breaks, unclosed = record_ends(data, self.delimiter, self.quote)
        faults = [] if self.newlines else quoted_breaks[:1].tolist()
        faults += [len(data)] if unclosed else []
        if not faults:
            return None
        before = np.searchsorted(ends, faults[0])
        start = int(ends[before - 1]) if before else 0
        opened = "a quote is opened in the record that begins here, and"
        plain = "`quote=None` takes quotes for plain characters"
        if self.newlines:
            return start, f"{opened} never closed; {plain}"
        return start, f"{opened} not closed on its line; `newlines_in_values=True` reads such values, {plain}"

    def records(self, chunk: Chunk) -> Iterator[tuple[int, int, int]]:
        """Line, start and end of each record; empty lines are no records."""
        line, start = chunk.at.line, 0
        for end in [*self.ends(chunk.data).ends.tolist(), len(chunk.data)]:
            if chunk.data[start:end].strip(b"\r\n"):
                yield line, start, end
            line += chunk.data.count(b"\n", start, end)
            start = end

    def parse_options(self) -> pc.ParseOptions:
        from pyarrow.csv import ParseOptions

        options = ParseOptions(delimiter=self.delimiter.decode(), newlines_in_values=True)
        options.quote_char = self.quote.decode() if self.quote else False
        return options


def infer_types(
    dialect: Dialect,
    names: list[str],
    selected: Sequence[str],
    schema: Mapping[str, pa.DataType],
    chunk: Chunk | None,
    file: str,
) -> SampledHead:
    """Infer the types of the columns `selected` from the first chunk of a file; `schema` gives types of some.

    If the chunk has a malformed record, the records before it count: a run delivers them, then raises the error.
    """
    import pyarrow as pa

    types = {name: schema.get(name, pa.null()) for name in names}
    explicit = {name: kind for name, kind in schema.items() if name in selected}
    table: pa.Table | None = None
    if chunk is not None:
        fault = dialect.unclosed_quote(chunk.data, last=False)
        data = chunk.data if fault is None else chunk.data[: fault[0]]
        table = _read_well_formed(dialect, _table_reader(dialect, names, selected, explicit), data)
    has_rows = table is not None and table.num_rows > 0
    for field in table.schema if table is not None and has_rows else ():
        if field.name in schema or not pa.types.is_binary(field.type):  # Arrow infers binary for text that is not UTF-8
            types[field.name] = field.type
    if chunk is not None and table is not None:
        log_odd_values(
            table.drop_columns([name for name in explicit if name in table.column_names]),
            dialect.nulls,
            lambda row: f"{file}, line {next(islice(dialect.records(chunk), row, None))[0]}",
        )
    return SampledHead(file, types, has_rows=has_rows)


def _read_well_formed(dialect: Dialect, read: Callable[[bytes], pa.Table], data: bytes) -> pa.Table | None:
    """The table of the records before the first malformed one; None if there are none."""
    import pyarrow as pa

    try:
        return read(data)
    except pa.ArrowInvalid:
        ends = [*dialect.ends(data).ends.tolist(), len(data)]
        bad = first_failing(ends, lambda end: read(data[:end]))
        return read(data[: ends[bad - 1]]) if bad else None
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that text cannot have: {error}") from None


def split_record(dialect: Dialect, record: bytes) -> list[bytes]:
    """The values of one record, without conversion.

    Raises:
        DataError: the record is malformed.
    """
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    max_values = record.count(dialect.delimiter) + 1
    line = record if record.endswith((b"\r", b"\n")) else record + b"\n"
    try:
        table = read_csv(
            arrow_source(line),
            read_options=ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=BLOCK_BYTES),
            parse_options=dialect.parse_options(),
            convert_options=ConvertOptions(column_types={f"f{i}": pa.binary() for i in range(max_values)}),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{error}: {shorten(record)}") from error
    return [column[0].as_py() for column in table.columns]


class CsvParser:
    """Parses the chunks of one file.

    Args:
        dialect: how values are delimited and quoted.
        names: the columns of this file, in its order.
        types: the columns to read, and their types.
        inferred: the columns whose types were inferred.
        origin: what they were inferred from, for errors.
        reader: reads the file.
    """

    def __init__(
        self,
        dialect: Dialect,
        names: list[str],
        types: Mapping[str, pa.DataType],
        inferred: frozenset[str],
        origin: str,
        reader: ChunkReader,
    ) -> None:
        self._dialect = dialect
        self._names = names
        self._types = types
        self._inferred = inferred
        self._origin = origin
        self._reader = reader
        self._read = _table_reader(dialect, names, list(types), types)

    def parse(self, chunk: Chunk) -> tuple[BlockRows, DataError | None]:
        """The rows up to the first malformed record, and the error of that record."""
        fault = self._dialect.unclosed_quote(chunk.data, last=chunk.last)
        if fault is None:
            return self._parse_records(chunk, chunk.data)
        start, message = fault
        rows, error = self._parse_records(chunk, chunk.data[:start])
        return rows, error or DataError(f"{self._reader.describe(chunk.place(start))}: {message}")

    def _parse_records(self, chunk: Chunk, data: bytes) -> tuple[BlockRows, DataError | None]:
        import pyarrow as pa

        if not data:
            return [], None
        try:
            return to_rows(self._read(data)), None
        except pa.ArrowInvalid:
            pass
        ends = [*self._dialect.ends(data).ends.tolist(), len(data)]
        bad = first_failing(ends, lambda end: self._read(data[:end]))
        start = ends[bad - 1] if bad else 0
        rows: BlockRows = to_rows(self._read(data[:start])) if start else []
        return rows, self._explain(data[start : ends[bad]], self._reader.describe(chunk.place(start)))

    def _explain(self, record: bytes, place: str) -> DataError:
        """What is wrong with a record that cannot be read."""
        import pyarrow as pa

        try:
            values = split_record(self._dialect, record)
            if len(values) != len(self._names):
                counts = f"{_count(len(values), 'value')} for {_count(len(self._names), 'column')}"
                return DataError(
                    f"{place}: {counts}: {shorten(record)}; values that hold the delimiter or a line break need "
                    "quotes, and `delimiter=` and `quote=` say what those are"
                )
            for name, kind in self._types.items():
                read = _table_reader(self._dialect, self._names, [name], {name: kind})
                try:
                    read(record)
                except pa.ArrowInvalid:
                    return self._explain_value(place, name, values[self._names.index(name)], kind)
            self._read(record)
        except DataError as error:
            return DataError(f"{place}: {error}")
        except pa.ArrowInvalid as error:
            return DataError(f"{place}: {error}: {shorten(record)}")
        return DataError(f"{place}: this record, or one shortly before it, cannot be read: {shorten(record)}")

    def _explain_value(self, place: str, name: str, value: bytes, kind: pa.DataType) -> DataError:
        """Why a value does not fit its column, and which type would hold it."""
        misfit = f"{place}, column {name!r}: {shorten(value)} is not"
        if str(kind) in ("string", "large_string", "string_view"):
            return DataError(f"{misfit} UTF-8; `schema={{{name!r}: 'binary'}}` takes the bytes as they are")
        wider = "float64" if str(kind) in ("int64", "uint64") or not _is(int, value) else "int64"
        other = wider if str(kind).startswith(("int", "uint")) and _is(float, value) else "string"
        repair = f"`schema={{{name!r}: {other!r}}}` gives another type, `null_values=` names what stands for no value"
        if name in self._inferred:
            repair = f"its type was inferred from the first rows of {self._origin}; {repair}"
        return DataError(f"{misfit} {kind}; {repair}")


def _table_reader(
    dialect: Dialect, names: list[str], selected: Sequence[str], types: Mapping[str, pa.DataType]
) -> Callable[[bytes], pa.Table]:
    """A function that reads the columns `selected` from bytes."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    if not selected:  # Arrow would read all; reading one counts the rows
        selected, types = names[:1], dict.fromkeys(names[:1], pa.binary())
    read_options = ReadOptions(use_threads=False, column_names=names, block_size=BLOCK_BYTES)
    parse_options = dialect.parse_options()
    convert_options = ConvertOptions(
        column_types=dict(types), include_columns=list(selected), null_values=list(dialect.nulls)
    )

    def read(data: bytes) -> pa.Table:
        return read_csv(
            arrow_source(data),
            read_options=read_options,
            parse_options=parse_options,
            convert_options=convert_options,
        )

    return read


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is(kind: type[int] | type[float], value: bytes) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True
