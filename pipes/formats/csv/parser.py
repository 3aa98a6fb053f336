"""CSV by Arrow: it infers types, parses chunks with fixed names and types, and explains malformed records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import ArgumentError, DataError
from ..tables.arrow import BLOCK_BYTES, arrow_source, to_rows
from ..tables.sampled_table import SampledHead
from ..text.chunks import Chunk, ChunkReader, ParsedPart, shorten
from ..text.encoding import REPAIR, is_utf8
from ..text.records import first_failing, parse_parts
from .odd_values import log_odd_values
from .quotes import RecordEnds, record_ends

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc


class UnclosedQuote(NamedTuple):
    """A quote that is not closed in its record.

    Attributes:
        start, stop: where the record begins and ends.
        problem: what is wrong, and what the user can do.
    """

    start: int
    stop: int
    problem: str


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

    def record_ends(self, data: bytes) -> list[int]:
        """Where each record ends; the last one may lack its line break."""
        ends = self.ends(data).ends.tolist()
        return ends if ends and ends[-1] == len(data) else [*ends, len(data)]

    def unclosed_quote(self, data: bytes, *, last: bool) -> UnclosedQuote | None:
        """Find the first record with a quote that is not closed within it.

        Args:
            data: whole records; the last one may lack its end if it is the `last` of the file.
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
        if not self.newlines:
            problem = f"{opened} not closed on its line; `newlines_in_values=True` reads such values, {plain}"
            return UnclosedQuote(start, faults[0], problem)
        problem = f"{opened} never closed; {plain}"
        if b"\n" in data[start:].rstrip():
            problem += ", `newlines_in_values=False` ends each record with its line"
        return UnclosedQuote(start, len(data), problem)

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

    Malformed records do not count, whatever happens to them in a run.
    """
    import pyarrow as pa

    types = {name: schema.get(name, pa.null()) for name in names}
    explicit = {name: kind for name, kind in schema.items() if name in selected}
    table: pa.Table | None = None
    parts: list[Chunk] = []
    if chunk is not None:
        table, parts = _read_well_formed(dialect, names, selected, explicit, chunk._replace(last=False))
    has_rows = table is not None and table.num_rows > 0
    for field in table.schema if table is not None and has_rows else ():
        if field.name in schema or not pa.types.is_binary(field.type):  # Arrow infers binary for text that is not UTF-8
            types[field.name] = field.type
    if table is not None:
        log_odd_values(
            table.drop_columns([name for name in explicit if name in table.column_names]),
            dialect.nulls,
            lambda row: f"{file}, line {next(islice(chain.from_iterable(map(dialect.records, parts)), row, None))[0]}",
        )
    return SampledHead(file, types, has_rows=has_rows)


def _read_well_formed(
    dialect: Dialect, names: list[str], selected: Sequence[str], types: Mapping[str, pa.DataType], chunk: Chunk
) -> tuple[pa.Table | None, list[Chunk]]:
    """The table of the records that are not malformed, some columns of which have types, and these records."""
    import pyarrow as pa

    read = _table_reader(dialect, names, selected, types)
    try:
        if dialect.unclosed_quote(chunk.data, last=False) is None:
            return read(chunk.data), [chunk]
    except pa.ArrowInvalid:
        pass
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that text cannot have: {error}") from None
    as_bytes = {**dict.fromkeys(selected, pa.binary()), **types}  # of any bytes
    parser = RecordParser(
        dialect, _table_reader(dialect, names, selected, as_bytes), lambda chunk, problem: DataError()
    )
    parts = [part.chunk for part in parser.parse(chunk) if part.error is None]
    return (read(b"".join(part.data for part in parts)) if parts else None), parts


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


class RecordParser:
    """Parses the records of chunks.

    Args:
        dialect: how values are delimited and quoted.
        read: the table of some records.
        explain: the error of a malformed record, given what is wrong with its quotes, if anything is.
    """

    def __init__(
        self, dialect: Dialect, read: Callable[[bytes], pa.Table], explain: Callable[[Chunk, str | None], DataError]
    ) -> None:
        self._dialect = dialect
        self._read = read
        self._explain = explain

    def parse(self, chunk: Chunk) -> Iterator[ParsedPart]:
        """The parts of a chunk, those behind a malformed record too.

        Raises:
            DataError: a quote is not closed up to the end of the file, and more than its line is lost.
        """
        while (fault := self._dialect.unclosed_quote(chunk.data, last=chunk.last)) is not None:
            if fault.start:
                yield from self._parse_records(chunk.slice(0, fault.start))
            record = chunk.slice(fault.start, fault.stop)
            error = self._explain(record, fault.problem)
            if b"\n" in record.data.rstrip():
                raise error
            yield ParsedPart([], record, error)
            if fault.stop == len(chunk.data):
                return
            chunk = chunk.slice(fault.stop, len(chunk.data))
        yield from self._parse_records(chunk)

    def _parse_records(self, chunk: Chunk) -> Iterator[ParsedPart]:
        return parse_parts(
            chunk,
            lambda data: to_rows(self._read(data)),
            self._dialect.record_ends,
            lambda record: self._explain(record, None),
        )


class CsvParser:
    """Parses the chunks of one file.

    Args:
        dialect: how values are delimited and quoted.
        names: the columns of this file, in its order.
        types: the columns to read, and their types.
        inferred: the columns whose types were inferred.
        origin: what they were inferred from, for errors.
        encoding: of the file; the text is UTF-8 already.
        reader: reads the file.
    """

    def __init__(
        self,
        dialect: Dialect,
        names: list[str],
        types: Mapping[str, pa.DataType],
        inferred: frozenset[str],
        origin: str,
        encoding: str,
        reader: ChunkReader,
    ) -> None:
        self._dialect = dialect
        self._names = names
        self._types = types
        self._inferred = inferred
        self._origin = origin
        self._encoding = encoding
        self._reader = reader
        self._read = _table_reader(dialect, names, list(types), types)
        self.parse = RecordParser(dialect, self._read, self._explain).parse

    def _explain(self, record: Chunk, problem: str | None) -> DataError:
        """What is wrong with a record that cannot be read; `problem` if it is its quotes."""
        import pyarrow as pa

        place = self._reader.describe(record.at)
        if problem is not None:
            return DataError(f"{place}: {problem}")
        data = record.data
        try:
            values = split_record(self._dialect, data)
            if len(values) != len(self._names):
                counts = f"{_count(len(values), 'value')} for {_count(len(self._names), 'column')}"
                return DataError(
                    f"{place}: {counts}: {shorten(data)}; values that hold the delimiter or a line break need "
                    "quotes, and `delimiter=` and `quote=` say what those are"
                )
            if (name := self._misfit(data)) is not None:
                return self._explain_value(place, name, values[self._names.index(name)], self._types[name])
            self._read(data)
        except DataError as error:
            return DataError(f"{place}: {error}")
        except pa.ArrowInvalid as error:
            return DataError(f"{place}: {error}: {shorten(data)}")
        return DataError(f"{place}: this record, or one shortly before it, cannot be read: {shorten(data)}")

    def _misfit(self, record: bytes) -> str | None:
        """The first column whose value does not have its type; None if all do."""
        import pyarrow as pa

        columns = list(self._types)

        def read(count: int) -> None:
            selected = columns[:count]
            _table_reader(self._dialect, self._names, selected, {name: self._types[name] for name in selected})(record)

        try:
            read(len(columns))
        except pa.ArrowInvalid:
            return columns[first_failing([*range(1, len(columns) + 1)], read)]
        return None

    def _explain_value(self, place: str, name: str, value: bytes, kind: pa.DataType) -> DataError:
        """Why a value does not fit its column, and which type would hold it."""
        misfit = f"{place}, column {name!r}: {shorten(value)} is not"
        if str(kind) in ("string", "large_string", "string_view"):
            if not is_utf8(self._encoding):
                return DataError(f"{misfit} {self._encoding}; {REPAIR}")
            return DataError(f"{misfit} UTF-8; {REPAIR}, `schema={{{name!r}: 'binary'}}` takes the bytes as they are")
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
