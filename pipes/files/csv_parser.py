"""CSV by Arrow: parsers of records, dialects, quotes, malformed records, and odd values."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array
from ..core.lazy import pa
from ..core.lazy import pc as compute
from ..errors import DataError
from ..formats.columns import BLOCK_BYTES, arrow_source, to_rows
from ..formats.text import (
    FEW_RECORDS,
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
_BYTES_AT_ONCE = 2**17
"""Few enough for a cache near the processor. With memory that is used again, 1 MiB takes 0.3 ms; with new memory for
each step 0.5 ms, and at once 10 ms."""
_COLUMNS_AT_ONCE = 2**13
"""Arrow takes 8 KiB for each column that it converts, to find texts of nulls and bools."""
_ROW = re.compile(r"Row #(\d+): (?:Expected (\d+) columns, got)?")
_ASCII = bytes(range(128)) + b"x" * 128
"""Makes text of any bytes. Delimiters and quotes are ASCII, so the values stay where they are."""


def split_record(dialect: Dialect, record: bytes) -> list[bytes]:
    """The values of one record, without conversion; a `DataError` if it is malformed."""
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    max_values = record.count(dialect.delimiter) + 1
    line = record if record.endswith((b"\r", b"\n")) else record + b"\n"
    try:
        table = read_csv(
            arrow_source(line),
            read_options=ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=BLOCK_BYTES),
            parse_options=dialect.parse_options(),
            convert_options=ConvertOptions(
                column_types=dict.fromkeys([f"f{i}" for i in range(max_values)], pa.binary()),
                null_values=[],
                true_values=[],
                false_values=[],
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{error}: {shorten(record)}") from error
    values: Any = pa.concat_arrays([cast("Any", column).chunk(0) for column in table.columns])
    return cast("list[bytes]", values[:: table.num_rows].to_pylist())


def parse_records(
    dialect: Dialect,
    chunk: Chunk,
    read: Callable[[bytes], pa.Table],
    explain: Callable[[Chunk, str | None], DataError],
) -> Iterator[ParsedPart]:
    """The parts of a chunk, those after a malformed record too.

    A quote that is not closed up to the end of the file is an error, if more than its line is lost. `explain` makes the
    error of a malformed record, given what is wrong with it if that is known.
    """
    faults = dialect.unclosed_quotes(chunk.data, last=chunk.last)
    problems = {fault.start: fault.problem for fault in faults}
    bounds = {place for fault in faults for place in (fault.start, fault.stop)} - {0, len(chunk.data)}
    start = 0
    for part in chunk.cut(sorted(bounds)):
        problem = problems.get(start)
        start += len(part.data)
        if problem is None:
            yield from parse_parts(
                part,
                lambda data: to_rows(read(data)),
                dialect.record_ends,
                lambda record: explain(record, None),
                partial(_named, dialect),
            )
            continue
        error = explain(part, problem)
        if b"\n" in part.data.rstrip():
            raise error
        yield ParsedPart([], part, error)


def _named(dialect: Dialect, error: ValueError, part: Chunk, ends: list[int]) -> list[int]:
    """The records with a wrong number of values, or the one that an error of Arrow names. It counts no empty lines."""
    row = _ROW.search(str(error))
    if row is None:
        return []
    if row[2]:
        wrong = _wrong_records(dialect, part.data, int(row[2]))
    else:
        wrong = [] if len(ends) > FEW_RECORDS else [int(row[1])]
    bounds = enumerate(pairwise([0, *ends]))
    records = [k for k, (start, end) in bounds if dialect.is_record(part.data[start:end])] if wrong else []
    return [records[number - 1] for number in wrong if number <= len(records)]


def _wrong_records(dialect: Dialect, data: bytes, columns: int) -> list[int]:
    """The numbers, from 1, of the records that do not have so many values."""
    from pyarrow.csv import ConvertOptions

    wrong: list[int] = []

    def note(row: pc.InvalidRow) -> Literal["skip"]:
        wrong.append(row.number or 0)
        return "skip"

    options = dialect.parse_options()
    options.invalid_row_handler = note
    names = [str(number) for number in range(columns)]
    one = ConvertOptions(column_types={names[0]: pa.binary()}, include_columns=names[:1])
    with suppress(pa.ArrowInvalid):  # of quotes that end nowhere
        read_records(names, options, one, dialect.without_comments(data).translate(_ASCII))
    return wrong


# Numbers that come out as they were written.

_NO_INTEGER = r"^\s*-?0[0-9xX]"
_NO_FLOAT = r"^\s*(?:-?0\d|\+0\d|\+\d+\s*$)"
_LARGE = r"^\s*-?\d{16,}\s*$|[eE]\+?\d{3}|^\s*-?\d{309}"
_TRUE, _FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def lost_values(values: Any, kind: pa.DataType) -> Any:
    """Those of some texts that a type of numbers takes and that do not come out of it as they were written."""
    lost: Any = compute.match_substring_regex(values, _NO_FLOAT if pa.types.is_floating(kind) else _NO_INTEGER)
    if pa.types.is_floating(kind):
        large: Any = compute.match_substring_regex(values, _LARGE)
        rounded = [value for value in values.filter(large).to_pylist() if not _is_exact(value)]
        lost = compute.or_(lost, compute.is_in(values, arrow_array(rounded, values.type)))
    return values.filter(lost)


def _is_exact(text: str) -> bool:
    number = float(text)
    return number == int(text) if text.strip().removeprefix("-").isdigit() else abs(number) != float("inf")


def _largest(column: Any) -> float:
    """The largest absolute value of a column of floats."""
    bounds: Any = compute.min_max(column).as_py()
    return max(-bounds["min"], bounds["max"]) if bounds["max"] is not None else 0.0


def _padded_records(dialect: Dialect, data: bytes) -> bytes:
    """The records with a value that may begin with a zero before a digit or an x."""
    bytes_ = np.frombuffer(data, np.uint8)
    before = [char[0] for char in (dialect.delimiter, dialect.quote, b"\n", b"\r") if char is not None and char in data]
    places = [0] if data[:1] == b"0" else []
    memory = np.empty((3, min(len(data), _BYTES_AT_ONCE)), np.bool_)
    for start in range(0, len(data) - 2, _BYTES_AT_ONCE):
        some = bytes_[start : start + _BYTES_AT_ONCE + 2]
        padded, begins, alike = memory[:, : len(some) - 2]
        begins[:] = False
        for char in before:
            begins |= np.equal(some[:-2], char, out=alike)
        padded = np.equal(some[1:-1], ord("0"), out=padded)
        padded &= np.greater_equal(some[2:], ord("0"), out=alike)
        padded &= begins
        if padded.any():
            places.extend((start + 1 + np.flatnonzero(padded)).tolist())
    if not places:
        return b""
    bounds = [0, *dialect.record_ends(data)]
    records: list[int] = np.unique(np.searchsorted(bounds, places, "right") - 1).tolist()
    return b"".join(data[bounds[k] : bounds[k + 1]] for k in records)


@dataclass
class CsvParser:
    """Parses the chunks of one file.

    Attributes:
        dialect: how values are delimited and quoted.
        names: the columns of this file, in its order.
        types: the columns to read, and their types.
        inferred: the columns whose types were inferred.
        origin: the source of inferred types, for errors.
        encoding: of the file; the text is UTF-8 already.
        reader: reads the file.
    """

    dialect: Dialect
    names: list[str]
    types: Mapping[str, pa.DataType]
    inferred: frozenset[str]
    origin: str
    encoding: str
    reader: ChunkReader

    def __post_init__(self) -> None:
        self._read_table = table_reader(self.dialect, self.names, list(self.types), self.types)
        self._numbers = {name: kind for name, kind in self.types.items() if name in self.inferred and is_number(kind)}
        self._floats = [name for name, kind in self._numbers.items() if pa.types.is_floating(kind)]

    def parse(self, chunk: Chunk) -> Iterator[ParsedPart]:
        """The parts of a chunk, as `parse_records` returns them."""
        return parse_records(self.dialect, chunk, self._read, self._explain)

    def _read(self, data: bytes) -> pa.Table:
        table = self._read_table(data)
        if self._numbers:
            large = [name for name in self._floats if _largest(table.column(name)) >= 2**53]
            padded = _padded_records(self.dialect, data)
            if (large and self._lost(data, large)) or (padded and self._lost(padded)):
                raise ValueError("a number would not come out as it is written")
        return table

    def _lost(self, data: bytes, names: Iterable[str] | None = None) -> tuple[str, str] | None:
        """A column of numbers and a value of it that would not come out as it is written; None if all do."""
        names = list(self._numbers if names is None else names)
        texts = text_reader(self.dialect, self.names, names)(data)
        for name in names:
            if len(lost := lost_values(texts.column(name), self._numbers[name])):
                return name, lost[0].as_py()
        return None

    def _explain(self, record: Chunk, problem: str | None) -> DataError:
        """The error of a record that cannot be read; `problem` is what is wrong with it, if that is known."""
        place = self.reader.describe(record.at)
        if problem is not None:
            return DataError(f"{place}: {problem}")
        data = record.data
        try:
            values = split_record(self.dialect, data)
            if len(values) != len(self.names):
                counts = f"{_count(len(values), 'value')} for {_count(len(self.names), 'column')}"
                return DataError(
                    f"{place}: {counts}: {shorten(data)}; values that hold the delimiter or a line break need quotes, "
                    "and `delimiter=` and `quote=` say what those are"
                )
            name = self._misfit(data)
            if name is not None:
                return self._explain_value(place, name, values[self.names.index(name)], self.types[name])
            if self._numbers and (lost := self._lost(data)) is not None:
                name, text = lost
                return DataError(
                    f"{place}, column {name!r}: {shorten(text)} would not come out of {self.types[name]} as it is "
                    f"written; its type was inferred from the first rows of {self.origin}; "
                    f"`schema={{{name!r}: 'string'}}` keeps it"
                )
            self._read(data)
        except DataError as error:
            return DataError(f"{place}: {error}")
        except ValueError as error:
            return DataError(f"{place}: {error}: {shorten(data)}")
        return DataError(f"{place}: this record, or one shortly before it, cannot be read: {shorten(data)}")

    def _misfit(self, record: bytes) -> str | None:
        """The first column whose value does not have its type; None if all do."""
        columns = list(self.types)

        def read(count: int) -> None:
            selected = columns[:count]
            table_reader(self.dialect, self.names, selected, {name: self.types[name] for name in selected})(record)

        try:
            read(len(columns))
        except pa.ArrowInvalid:
            return columns[first_failing(len(columns), read)]
        return None

    def _explain_value(self, place: str, name: str, value: bytes, kind: pa.DataType) -> DataError:
        """Why a value does not fit its column, and which type would hold it."""
        misfit = f"{place}, column {name!r}: {shorten(value)} is not"
        if str(kind) in ("string", "large_string", "string_view"):
            if not is_utf8(self.encoding):
                return DataError(f"{misfit} {self.encoding}; {REPAIR}")
            return DataError(f"{misfit} UTF-8; {REPAIR}, `schema={{{name!r}: 'binary'}}` takes the bytes as they are")
        other = "string"
        if pa.types.is_integer(kind) and _is(float, value):
            fitting = [other for other in ("int64", "uint64") if _is(int, value) and _fits(int(value), other)]
            other = fitting[0] if fitting else "string" if _is(int, value) else "float64"
        repair = f"`schema={{{name!r}: {other!r}}}` gives another type, `null_values=` names the texts of nulls"
        if name in self.inferred:
            repair = f"its type was inferred from the first rows of {self.origin}; {repair}"
        return DataError(f"{misfit} {kind}; {repair}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is(kind: type[int] | type[float], value: bytes) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def _fits(number: int, kind: str) -> bool:
    return 0 <= number < 2**64 if kind == "uint64" else -(2**63) <= number < 2**63


# Dialects, and the ends of records.


class UnclosedQuote(NamedTuple):
    """The bounds of a record with a quote that is not closed in it; what is wrong, and its repair."""

    start: int
    stop: int
    problem: str


class Dialect(NamedTuple):
    """How values are delimited and quoted, and which of them are null."""

    delimiter: bytes
    quote: bytes | None
    nulls: tuple[str, ...]
    newlines: bool
    """Whether quoted or escaped line breaks may be part of a value."""
    escape: bytes | None = None
    comment: bytes | None = None
    words: bool = False
    """Whether only true and false are bools, and not 1 and 0."""

    @property
    def multiline(self) -> bytes | None:
        """The quote, if values in quotes may hold line breaks."""
        return self.quote if self.newlines else None

    def plain(self, data: bytes) -> bytes:
        """Text of the same length with an x for each byte that is escaped, escapes, or is in a comment."""
        if self.comment is not None and self.comment in data:
            return self._tokens.sub(lambda match: self._plain_token(match[0]), data)
        return self._without_escapes(data)

    def without_comments(self, data: bytes) -> bytes:
        """Text without its comments, but with their line breaks."""
        if self.comment is None or self.comment not in data:
            return data
        comment = self.comment
        return self._tokens.sub(lambda match: b"" if match[0].startswith(comment) else match[0], data)

    @property
    def _tokens(self) -> re.Pattern[bytes]:
        """A comment, what is escaped, or a value in quotes: what may hide the beginning of another of these."""
        return _tokens(self.comment or b"", self.escape, self.delimiter, self.multiline)

    def _plain_token(self, token: bytes) -> bytes:
        if self.comment is not None and token.startswith(self.comment):
            return b"x" * len(token)
        return self._without_escapes(token)

    def _without_escapes(self, data: bytes) -> bytes:
        if self.escape is None or self.escape not in data:
            return data
        return re.sub(re.escape(self.escape) + (rb"[\s\S]" if self.newlines else rb"[^\r\n]"), b"xx", data)

    def last_record_end(self, data: bytes) -> int:
        """The end of the last whole record of `data`; 0 if it holds none."""
        return last_record_end(self.plain(data), self.delimiter, self.multiline)

    def record_ends(self, data: bytes) -> list[int]:
        """The end of each record; the last one may lack its line break."""
        ends = record_ends(self.plain(data), self.delimiter, self.multiline).ends.tolist()
        return ends if ends and ends[-1] == len(data) else [*ends, len(data)]

    def is_record(self, data: bytes) -> bool:
        """Whether what ends where a record does is one: no empty line and no comment."""
        return bool(data.strip(b"\r\n")) and not (self.comment is not None and data.startswith(self.comment))

    def unclosed_quotes(self, data: bytes, *, last: bool) -> list[UnclosedQuote]:
        """The records with a quote that is not closed within them, or whose line break is escaped, in order.

        A value that goes on after line breaks and a closing quote has lacked its own: that quote opens the next value.
        """
        if not any(char and char in data for char in (self.quote, self.escape)):
            return []
        data = self.plain(data)
        opened = "a quote is opened in the record that begins here, and"
        plain = "`quote=None` takes quotes for plain characters, `escape=` names what goes before one in a value"
        found: dict[tuple[int, int], str] = {}
        quoted = self.quote is not None and self.quote in data
        ends, quoted_breaks, unclosed = record_ends(data, self.delimiter, self.quote)
        if quoted and self.newlines and len(quoted_breaks):
            bounds = [0, *ends.tolist(), len(data)]
            numbers = np.searchsorted(ends, runaway_quotes(data, self.delimiter, self.quote or b""), "right").tolist()
            problem = f"{opened} not closed before another one, lines later, within a value; {plain}"
            found |= {(bounds[number], bounds[number + 1]): problem for number in numbers}
        if quoted and self.newlines and unclosed and last:
            start = int(ends[-1]) if len(ends) else 0
            end = (
                ", `newlines_in_values=False` ends each record with its line" if b"\n" in data[start:].rstrip() else ""
            )
            found[start, len(data)] = f"{opened} never closed; {plain}{end}"
        elif quoted and not self.newlines and (unclosed or len(quoted_breaks)):
            problem = f"{opened} not closed on its line; `newlines_in_values=True` reads such values, {plain}"
            found = dict.fromkeys(unclosed_lines(data, self.delimiter, self.quote or b""), problem)
        if self.escape is not None and not self.newlines and self.escape in data:  # before a line break
            ends = record_ends(data, self.delimiter, None).ends
            bounds = [0, *ends.tolist(), len(data)]
            escaped = [match.start() for match in re.finditer(re.escape(self.escape), data)]
            numbers = np.searchsorted(ends, escaped, "right").tolist()
            problem = "its line break is escaped, and `newlines_in_values=True` reads such values"
            found |= {(bounds[number], bounds[number + 1]): problem for number in numbers}
        return [UnclosedQuote(start, stop, problem) for (start, stop), problem in sorted(found.items())]

    def records(self, chunk: Chunk) -> Iterator[tuple[int, int, int]]:
        """Line, start and end of each record."""
        line, start = chunk.at.line, 0
        for end in self.record_ends(chunk.data):
            if self.is_record(chunk.data[start:end]):
                yield line, start, end
            line += chunk.data.count(b"\n", start, end)
            start = end

    def parse_options(self) -> pc.ParseOptions:
        from pyarrow.csv import ParseOptions

        options = ParseOptions(delimiter=self.delimiter.decode(), newlines_in_values=True)
        options.quote_char = self.quote.decode() if self.quote else False
        options.escape_char = self.escape.decode() if self.escape else False
        return options


@functools.lru_cache
def _tokens(comment: bytes, escape: bytes | None, delimiter: bytes, quote: bytes | None) -> re.Pattern[bytes]:
    pattern = rb"(?:(?<=[\r\n])|(?<=\A))%b[^\r\n]*" % re.escape(comment)
    if escape is not None:
        pattern += rb"|%b[\s\S]" % re.escape(escape)
    if quote is not None:
        q, d, e = re.escape(quote), re.escape(delimiter), re.escape(escape or b"")
        inner = rb"(?:%b%b|%b[^%b])*" % (q, q, rb"%b[\s\S]|" % e if escape else b"", q)
        pattern += rb"|%b(?:(?<=\A%b)|(?<=[%b\r\n]%b))%b(?:%b|\Z)" % (q, q, d, q, inner, q)
    return re.compile(pattern)


def table_reader(
    dialect: Dialect, names: list[str], selected: Sequence[str], types: Mapping[str, pa.DataType]
) -> Callable[[bytes], pa.Table]:
    """A function that reads the columns `selected` from bytes."""
    from pyarrow.csv import ConvertOptions

    if not selected:  # Arrow would read all; reading one counts the rows
        selected, types = names[:1], dict.fromkeys(names[:1], pa.binary())
    readers: list[Callable[[bytes], pa.Table]] = []
    for start in range(0, len(selected), _COLUMNS_AT_ONCE):
        some = list(selected[start : start + _COLUMNS_AT_ONCE])
        options = ConvertOptions(
            column_types={name: types[name] for name in some if name in types},
            include_columns=some,
            null_values=list(dialect.nulls),
        )
        if dialect.words:
            options.true_values, options.false_values = _TRUE, _FALSE
        readers.append(partial(read_records, names, dialect.parse_options(), options))

    def read(data: bytes) -> pa.Table:
        data = dialect.without_comments(data)
        tables = [reader(data) for reader in readers]
        if len(tables) == 1:
            return tables[0]
        columns = [column for table in tables for column in table.columns]
        return pa.Table.from_arrays(columns, list(selected))

    return read


def text_reader(dialect: Dialect, names: list[str], selected: Sequence[str]) -> Callable[[bytes], pa.Table]:
    """A function that reads the columns `selected` from bytes as text."""
    return table_reader(dialect._replace(nulls=()), names, selected, dict.fromkeys(selected, pa.string()))


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


def runaway_quotes(data: bytes, delimiter: bytes, quote: bytes) -> list[int]:
    """The places of quotes that open values with line breaks, and that close where the value goes on."""
    bytes_ = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(bytes_ == quote[0])
    closers = places[1::2]
    after = bytes_[np.minimum(closers + 1, len(data) - 1)]
    ends = (after == delimiter[0]) | (after == _LF) | (after == _CR) | (after == quote[0])
    if ends.all():  # then the quotes alternate, for the next one cannot stand in a value that has ended
        return []
    ending = (b"", delimiter, b"\r", b"\n")
    return [
        match.start()
        for match in _quoted_values(data, delimiter, quote)
        if match.group(1) is None and data[match.end() : match.end() + 1] not in ending and b"\n" in match[0]
    ]


def _quoted_values(data: bytes, delimiter: bytes, quote: bytes) -> Iterator[re.Match[bytes]]:
    """The values in quotes; the first group is one of those that are not closed. `re` finds quotes with memchr."""
    q, d = re.escape(quote), re.escape(delimiter)
    pattern = rb"%b(?:(?<=\A%b)|(?<=[%b\r\n]%b))[^%b]*(?:%b%b[^%b]*)*(?:%b|(\Z))" % (q, q, d, q, q, q, q, q, q)
    return re.finditer(pattern, data)


def _ends_by_regions(data: bytes, breaks: npt.NDArray[np.int64], delimiter: bytes, quote: bytes) -> RecordEnds:
    # Slower, but right for text with quotes inside fields, such as 5" nails.
    spans: list[tuple[int, int]] = []
    unclosed = False
    for match in _quoted_values(data, delimiter, quote):
        spans.append(match.span())
        unclosed = match.group(1) is not None
    regions = np.array(spans, np.int64).reshape(-1, 2)
    region = np.searchsorted(regions[:, 0], breaks, "right") - 1
    inside = (region >= 0) & (breaks < regions[region, 1]) if len(regions) else np.zeros(len(breaks), bool)
    return RecordEnds(breaks[~inside] + 1, breaks[inside] + 1, unclosed)
