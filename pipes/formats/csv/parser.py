"""CSV by Arrow: it infers types, parses chunks with fixed names and types, and explains malformed records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from ...errors import ArgumentError, DataError
from ..tables.arrow import BLOCK_BYTES, arrow_source, to_rows
from ..tables.sampled_table import SampledHead
from ..text.chunks import Chunk, ChunkReader, ParsedPart, shorten
from ..text.encoding import REPAIR, is_utf8
from ..text.records import FoundErrors, first_failing, parse_parts
from .dialect import Dialect, table_reader
from .faults import Fault, find_faults
from .odd_values import log_odd_values

if TYPE_CHECKING:
    import pyarrow as pa


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
    """The table of the well-formed records, and these records; the columns in `types` have these types."""
    import pyarrow as pa

    read = table_reader(dialect, names, selected, types)
    try:
        if not dialect.unclosed_quotes(chunk.data, last=False):
            return read(chunk.data), [chunk]
    except pa.ArrowInvalid:
        pass
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that text cannot have: {error}") from None
    as_bytes = {**dict.fromkeys(selected, pa.binary()), **types}  # of any bytes
    read_bytes = table_reader(dialect, names, selected, as_bytes)
    parser = RecordParser(dialect, names, as_bytes, read_bytes, lambda chunk, problem: DataError())
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
        names: the columns of the file.
        types: the columns to read, and their types.
        read: makes a table of records.
        explain: the error of a malformed record, given what is wrong with it if that is known: with its quotes as
            text, with its values as a fault.
    """

    def __init__(
        self,
        dialect: Dialect,
        names: list[str],
        types: Mapping[str, pa.DataType],
        read: Callable[[bytes], pa.Table],
        explain: Callable[[Chunk, str | Fault | None], DataError],
    ) -> None:
        self._dialect = dialect
        self._names = names
        self._types = types
        self._read = read
        self._explain = explain

    def parse(self, chunk: Chunk) -> Iterator[ParsedPart]:
        """The parts of a chunk, those behind a malformed record too.

        Raises:
            DataError: a quote is not closed up to the end of the file, and more than its line is lost.
        """
        faults = self._dialect.unclosed_quotes(chunk.data, last=chunk.last)
        problems = {fault.start: fault.problem for fault in faults}
        bounds = {place for fault in faults for place in (fault.start, fault.stop)} - {0, len(chunk.data)}
        start = 0
        for part in chunk.cut(sorted(bounds)):
            problem = problems.get(start)
            start += len(part.data)
            if problem is None:
                yield from self._parse_records(part)
                continue
            error = self._explain(part, problem)
            if b"\n" in part.data.rstrip():
                raise error
            yield ParsedPart([], part, error)

    def _parse_records(self, chunk: Chunk) -> Iterator[ParsedPart]:
        return parse_parts(
            chunk,
            lambda data: to_rows(self._read(data)),
            self._dialect.record_ends,
            self._find_errors,
            lambda record: self._explain(record, None),
        )

    def _find_errors(self, data: bytes, ends: list[int]) -> FoundErrors | None:
        found = find_faults(self._dialect, self._names, self._types, data, ends)
        if found is None:
            return None
        errors = {number: partial(self._explain_fault, fault) for number, fault in found.faults.items()}
        return FoundErrors(found.rows, errors)

    def _explain_fault(self, fault: Fault, record: Chunk) -> DataError:
        return self._explain(record, fault)


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
        self._read = table_reader(dialect, names, list(types), types)

    def parse(self, chunk: Chunk) -> Iterator[ParsedPart]:
        """The parts of a chunk, as `RecordParser.parse` returns them."""
        # It refers to this object, so one that is kept would be freed only by the garbage collector.
        return RecordParser(self._dialect, self._names, self._types, self._read, self._explain).parse(chunk)

    def _explain(self, record: Chunk, problem: str | Fault | None) -> DataError:
        """What is wrong with a record that cannot be read; `problem` is what is known of it."""
        import pyarrow as pa

        place = self._reader.describe(record.at)
        if isinstance(problem, str):
            return DataError(f"{place}: {problem}")
        data = record.data
        try:
            fault = problem or self._find_fault(data)
            if fault is None:
                self._read(data)
            elif fault.width is None:
                return self._explain_value(place, fault.column, fault.value, self._types[fault.column])
            else:
                counts = f"{_count(fault.width, 'value')} for {_count(len(self._names), 'column')}"
                return DataError(
                    f"{place}: {counts}: {shorten(data)}; values that hold the delimiter or a line break need "
                    "quotes, and `delimiter=` and `quote=` say what those are"
                )
        except DataError as error:
            return DataError(f"{place}: {error}")
        except pa.ArrowInvalid as error:
            return DataError(f"{place}: {error}: {shorten(data)}")
        return DataError(f"{place}: this record, or one shortly before it, cannot be read: {shorten(data)}")

    def _find_fault(self, record: bytes) -> Fault | None:
        """What is wrong with the values of a record; None if each has the type of its column."""
        values = split_record(self._dialect, record)
        if len(values) != len(self._names):
            return Fault(len(values))
        name = self._misfit(record)
        return None if name is None else Fault(None, name, values[self._names.index(name)])

    def _misfit(self, record: bytes) -> str | None:
        """The first column whose value does not have its type; None if all do."""
        import pyarrow as pa

        columns = list(self._types)

        def read(count: int) -> None:
            selected = columns[:count]
            table_reader(self._dialect, self._names, selected, {name: self._types[name] for name in selected})(record)

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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is(kind: type[int] | type[float], value: bytes) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True
