"""CSV by Arrow: parsers of records, dialects, quotes, malformed records, and odd values."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array
from ..core.lazy import pa
from ..errors import ArgumentError, DataError
from ..formats.columns import BLOCK_BYTES, arrow_source, to_rows
from ..formats.table_format import SampledHead
from ..formats.text import (
    REPAIR,
    Chunk,
    ChunkReader,
    ParsedPart,
    first_failing,
    is_utf8,
    parse_parts,
    shorten,
)

if TYPE_CHECKING:
    import pyarrow.csv as pc

log = logging.getLogger("feedpipe")

_CR, _LF = 13, 10
_ROW = re.compile(r"Row #(\d+): ")

MIN_OTHERS = 10
"""The least number of other values, all of them numbers or dates, that make a value odd."""

_FIRST_ROWS = 64
_TYPES = {  # by the type that the column would have had: a noun for its values, and their pattern
    "int64": ("number", r"^-?\d{1,18}$"),
    "float64": ("number", r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"),
    "date32": ("date", r"^\d{4}-\d\d-\d\d$"),
}


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
    parsed = parse_records(dialect, chunk, read_bytes, lambda chunk, problem: DataError())
    parts = [part.chunk for part in parsed if part.error is None]
    return (read(b"".join(part.data for part in parts)) if parts else None), parts


def split_record(dialect: Dialect, record: bytes) -> list[bytes]:
    """The values of one record, without conversion.

    Raises:
        DataError: the record is malformed.
    """
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


def parse_records(
    dialect: Dialect,
    chunk: Chunk,
    read: Callable[[bytes], pa.Table],
    explain: Callable[[Chunk, str | None], DataError],
) -> Iterator[ParsedPart]:
    """The parts of a chunk, those after a malformed record too.

    Args:
        dialect: how values are delimited and quoted.
        chunk: whole records.
        read: makes a table of records.
        explain: makes the error of a malformed record, given what is wrong with its quotes.

    Raises:
        DataError: a quote is not closed up to the end of the file, and more than its line is lost.
    """
    faults = dialect.unclosed_quotes(chunk.data, last=chunk.last)
    problems = {fault.start: fault.problem for fault in faults}
    bounds = {place for fault in faults for place in (fault.start, fault.stop)} - {0, len(chunk.data)}
    start = 0
    for part in chunk.cut(sorted(bounds)):
        problem = problems.get(start)
        start += len(part.data)
        if problem is None:
            read_rows, explain_record = lambda data: to_rows(read(data)), lambda record: explain(record, None)
            yield from parse_parts(part, read_rows, dialect.record_ends, explain_record, _named)
            continue
        error = explain(part, problem)
        if b"\n" in part.data.rstrip():
            raise error
        yield ParsedPart([], part, error)


def _named(error: ValueError, part: Chunk, ends: list[int]) -> int | None:
    """The record that an error of Arrow names. It counts those that are no empty lines."""
    row = _ROW.search(str(error))
    bounds = enumerate(pairwise([0, *ends]))
    records = [number for number, (start, end) in bounds if part.data[start:end].strip(b"\r\n")] if row else []
    return next(iter(records[int(row.group(1)) - 1 :]), None) if row else None


class CsvParser:
    """Parses the chunks of one file.

    Args:
        dialect: how values are delimited and quoted.
        names: the columns of this file, in its order.
        types: the columns to read, and their types.
        inferred: the columns whose types were inferred.
        origin: the source of inferred types, for errors.
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
        """The parts of a chunk, as `parse_records` returns them."""
        return parse_records(self._dialect, chunk, self._read, self._explain)

    def _explain(self, record: Chunk, problem: str | None) -> DataError:
        """The error of a record that cannot be read; `problem` is what is wrong with its quotes."""
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
            name = self._misfit(data)
            if name is not None:
                return self._explain_value(place, name, values[self._names.index(name)], self._types[name])
            self._read(data)
        except DataError as error:
            return DataError(f"{place}: {error}")
        except pa.ArrowInvalid as error:
            return DataError(f"{place}: {error}: {shorten(data)}")
        return DataError(f"{place}: this record, or one shortly before it, cannot be read: {shorten(data)}")

    def _misfit(self, record: bytes) -> str | None:
        """The first column whose value does not have its type; None if all do."""
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
        repair = f"`schema={{{name!r}: {other!r}}}` gives another type, `null_values=` names the texts of nulls"
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


# Dialects, and the ends of records.


class UnclosedQuote(NamedTuple):
    """A quote that is not closed in its record.

    Attributes:
        start, stop: the bounds of the record.
        problem: what is wrong, and its repair.
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
        """The end of each record; the last one may lack its line break."""
        ends = self.ends(data).ends.tolist()
        return ends if ends and ends[-1] == len(data) else [*ends, len(data)]

    def unclosed_quotes(self, data: bytes, *, last: bool) -> list[UnclosedQuote]:
        """The records with a quote that is not closed within them, in order.

        Args:
            data: whole records; the last one may lack its end if it is the `last` of the file.
        """
        if self.quote is None or self.quote not in data or (self.newlines and not last):
            return []
        ends, quoted_breaks, unclosed = record_ends(data, self.delimiter, self.quote)
        opened = "a quote is opened in the record that begins here, and"
        plain = "`quote=None` takes quotes for plain characters"
        if not self.newlines:
            problem = f"{opened} not closed on its line; `newlines_in_values=True` reads such values, {plain}"
            lines = unclosed_lines(data, self.delimiter, self.quote) if unclosed or len(quoted_breaks) else []
            return [UnclosedQuote(start, stop, problem) for start, stop in lines]
        if not unclosed:
            return []
        start = int(ends[-1]) if len(ends) else 0
        problem = f"{opened} never closed; {plain}"
        if b"\n" in data[start:].rstrip():
            problem += ", `newlines_in_values=False` ends each record with its line"
        return [UnclosedQuote(start, len(data), problem)]

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


def table_reader(
    dialect: Dialect, names: list[str], selected: Sequence[str], types: Mapping[str, pa.DataType]
) -> Callable[[bytes], pa.Table]:
    """A function that reads the columns `selected` from bytes."""
    from pyarrow.csv import ConvertOptions

    if not selected:  # Arrow would read all; reading one counts the rows
        selected, types = names[:1], dict.fromkeys(names[:1], pa.binary())
    convert_options = ConvertOptions(
        column_types=dict(types), include_columns=list(selected), null_values=list(dialect.nulls)
    )
    return partial(read_records, names, dialect.parse_options(), convert_options)


def read_records(
    names: list[str], parse_options: pc.ParseOptions, convert_options: pc.ConvertOptions, data: bytes
) -> pa.Table:
    """Read bytes without a header as one block."""
    from pyarrow.csv import ReadOptions, open_csv

    reader = open_csv(  # `read_csv` hands the work to a thread, which takes longer than to parse some lines
        arrow_source(data),
        read_options=ReadOptions(use_threads=False, column_names=names, block_size=BLOCK_BYTES),
        parse_options=parse_options,
        convert_options=convert_options,
    )
    return reader.read_all()


class RecordEnds(NamedTuple):
    """The line breaks of some text, divided by whether they end a record."""

    ends: npt.NDArray[np.int64]
    """The byte after each line break outside quotes."""
    quoted_breaks: npt.NDArray[np.int64]
    """The byte after each line break inside quotes."""
    unclosed: bool
    """Whether the text ends inside quotes."""


def record_ends(data: bytes, delimiter: bytes, quote: bytes | None) -> RecordEnds:
    r"""Find the ends of records in `data`, which begins with a record; a lone `\r` at its end does not end one.

    A quote opens a field only as its first character, and the next quote that is not doubled closes it. RFC 4180,
    Python's csv and Arrow have the same rule.
    """
    bytes_ = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(bytes_ == _LF)
    if b"\r" in data:
        lone = (bytes_[:-1] == _CR) & (bytes_[1:] != _LF)
        breaks = np.union1d(breaks, np.flatnonzero(lone))
    if quote is None or quote not in data:
        return RecordEnds(breaks + 1, breaks[:0], False)
    # If each odd quote begins a field (or doubles the one before), quotes alternate: odd ones open.
    places = np.flatnonzero(bytes_ == quote[0])
    openers = places[::2]
    before = bytes_[openers - 1]  # for an opener at 0 this is the last byte, which does not matter
    begins = (before == delimiter[0]) | (before == _LF) | (before == _CR) | (before == quote[0]) | (openers == 0)
    if not begins.all():
        return _ends_by_regions(data, breaks, delimiter, quote)
    outside = np.searchsorted(places, breaks) % 2 == 0
    return RecordEnds(breaks[outside] + 1, breaks[~outside] + 1, len(places) % 2 == 1)


def last_record_end(data: bytes, delimiter: bytes, quote: bytes | None) -> int:
    """The end of the last whole record of `data`; 0 if it holds none."""
    if (quote is None or quote not in data) and (end := data.rfind(b"\n") + 1):
        return end
    ends = record_ends(data, delimiter, quote).ends
    return int(ends[-1]) if len(ends) else 0


def unclosed_lines(data: bytes, delimiter: bytes, quote: bytes) -> list[tuple[int, int]]:
    """The bounds of each line with a quote that is not closed on it; each line is a record."""
    ends = record_ends(data, delimiter, None).ends
    q, d = re.escape(quote), re.escape(delimiter)
    pattern = rb"%b(?:(?<=\A%b)|(?<=[%b\r\n]%b))[^%b\r\n]*(?:%b%b[^%b\r\n]*)*(?:%b|(\Z|(?=[\r\n])))"
    matches = re.finditer(pattern % (q, q, d, q, q, q, q, q, q), data)
    lines = np.searchsorted(ends, [match.start() for match in matches if match.group(1) is not None], "right")
    bounds = [0, *ends.tolist(), len(data)]
    return [(bounds[line], bounds[line + 1]) for line in lines.tolist()]


def _ends_by_regions(data: bytes, breaks: npt.NDArray[np.int64], delimiter: bytes, quote: bytes) -> RecordEnds:
    # Slower, but right for text with quotes inside fields, such as 5" nails. The pattern begins with the quote, so `re`
    # finds candidates with memchr.
    q, d = re.escape(quote), re.escape(delimiter)
    pattern = rb"%b(?:(?<=\A%b)|(?<=[%b\r\n]%b))[^%b]*(?:%b%b[^%b]*)*(?:%b|(\Z))" % (q, q, d, q, q, q, q, q, q)
    spans: list[tuple[int, int]] = []
    unclosed = False
    for match in re.finditer(pattern, data):
        spans.append(match.span())
        unclosed = match.group(1) is not None
    regions = np.array(spans, np.int64).reshape(-1, 2)
    region = np.searchsorted(regions[:, 0], breaks, "right") - 1
    inside = (region >= 0) & (breaks < regions[region, 1]) if len(regions) else np.zeros(len(breaks), bool)
    return RecordEnds(breaks[~inside] + 1, breaks[inside] + 1, unclosed)


# Columns that are text because of a single odd value.


class OddValue(NamedTuple):
    """The only value of a column of text that is not of `type`, and its first row."""

    value: str
    row: int
    type: str


def log_odd_values(table: pa.Table, nulls: Sequence[str], place: Callable[[int], str]) -> None:
    """Log each column that is text because of a single value, once in a process.

    Args:
        table: columns whose types were inferred.
        nulls: texts that mean a missing value.
        place: the file and the line of a row.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type) and (odd := odd_value(column, nulls)) is not None:
            noun, _ = _TYPES[odd.type]
            _log_once(
                f"{place(odd.row)}, column {name!r}: {shorten(odd.value)} is no {noun}, and all other values that were "
                f"read for the types are {noun}s, so the column is text; `schema={{{name!r}: {odd.type!r}}}` makes it "
                "an error, `null_values=` names the texts of nulls"
            )


def odd_value(column: Any, nulls: Sequence[str]) -> OddValue | None:
    """The odd value of a column of text; None if it has none, or several different ones."""
    import pyarrow.compute as pc

    for kind, (_, pattern) in _TYPES.items():
        if len(_others(column.slice(0, _FIRST_ROWS), pattern, nulls)) > 1:  # most text ends here, at no cost
            continue
        others = _others(column, pattern, nulls)
        fits: Any = pc.match_substring_regex(column, pattern)
        if len(others) == 1 and pc.sum(fits).as_py() >= MIN_OTHERS:
            return OddValue(others[0].as_py(), pc.index(column, others[0]).as_py(), kind)
    return None


def _others(column: Any, pattern: str, nulls: Sequence[str]) -> Any:
    """The different values that do not look like `pattern` and mean no missing value."""
    import pyarrow.compute as pc

    values: Any = pc.unique(column)
    fits = pc.or_(pc.match_substring_regex(values, pattern), pc.is_in(values, arrow_array(nulls, values.type)))
    return values.filter(pc.invert(fits))


@functools.lru_cache(maxsize=1024)
def _log_once(message: str) -> None:
    log.warning(message)
