"""`parse_csv`: the options of CSV files, and their rows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Unpack

from ..core.checks import check_int
from ..core.lazy import pa
from ..core.rows import Row
from ..core.skips import OnError
from ..errors import ArgumentError, ArgumentTypeError, DataError
from ..formats.columns import (
    HEAD_BYTES,
    check_names,
    check_schema,
    first_duplicate,
    missing_column_error,
    suggest_name,
    unexpected_column_error,
)
from ..formats.streams import ChunkSize
from ..formats.table_format import FixedSchema, SampledHead, TextTable, TextTableOptions, options_of
from ..formats.text import (
    REPAIR,
    Chunk,
    ChunkReader,
    ParseChunk,
    TextPlace,
    Utf8Stream,
    check_encoding,
    is_utf8,
    shorten,
)
from .csv_parser import CsvParser, Dialect, split_record
from .csv_types import infer_types
from .ranges import TextFormat
from .units import parse

if TYPE_CHECKING:
    from ..pipe import Pipe
    from ..storage.file import File

NULL_VALUES = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null")


class CsvOptions(TextTableOptions, total=False):
    """The options of `parse_csv`."""

    delimiter: str
    header: bool | None
    column_names: Sequence[str] | None
    quote: str | None
    null_values: Sequence[str]
    newlines_in_values: bool
    encoding: str
    escape: str | None
    comment: str | None
    skip_rows: int


def parse_csv(pipe: Pipe[File], /, *, on_error: OnError | None = None, **options: Unpack[CsvOptions]) -> Pipe[Row]:
    r"""Give the rows of each CSV file, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Names and types
    are fixed before the first row and hold for all files: names come from the first file, types from `schema` or from
    the first 1 MiB of the first file that has rows (the first of `for x in pipe`, whatever is shuffled later). Each
    file must have the same columns, in any order. With `unify_schemas=True` the first 1 MiB of every file is read: the
    columns are those of all files, null if a file lacks one, and types are the narrowest for all values. Folders named
    as in `year=2024` give columns too, int64 if all values are such integers, string otherwise, unless the files have a
    column of that name. Order: that of the files, and within each that of its rows. Length: unknown, streamed. State: a
    place in a file. A resume seeks to it, or reads a compressed file up to it, and parses at most 1 MiB again.

    A column of numbers is text if a value would not come out as it was written: `007`, `+1`, `0x1F`, `12e5`, an integer
    that a float would round. The log names the value and its line. In later rows such a value is an error. Integers
    from 2^63 to 2^64 make a column uint64. Only `true` and `false` are bools, unless `schema` gives that type.

    Not read are delimiters of several characters, comments behind values, and blanks around quotes.

    A quoted value may hold delimiters, line breaks and doubled quotes; empty lines are left out.

    Shards divide files. If no value can hold a line break (`newlines_in_values=False`, or `quote=None`), they divide
    ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to 32 MiB each. A
    `shuffle` after this shuffles the order of files or ranges as well. A file is not split if it is compressed or has
    another encoding than UTF-8, if `row_column` is given, or if files come in a new order in each epoch, as with
    `list_files(...).shuffle()`. An error in a range counts its line by reading the file up to there; beyond 256 MiB it
    names the byte instead.

    Args:
        schema: types by name, as Arrow types or their names, such as {"id": "int32", "text": "string"}, or a pyarrow
            schema; the types of other columns are inferred.
        columns: reads only these columns, in this order; columns of folders may be among them.
        delimiter: the character between values.
        header: whether the first line of each file has the names; by default it does unless `column_names` is given.
        column_names: names for all columns, which replace the header's; without both they are f0, f1, and so on.
        quote: the character around a value; None treats quotes as plain characters.
        null_values: texts that mean a missing value, in columns that are not text; text is never missing.
        newlines_in_values: False says that each record is one line, so that files can be split; this is checked.
        escape: a character, such as a backslash, that takes the next one literally, in quotes and outside. Quotes in a
            value may still be doubled, and `\N` is N.
        comment: a character that makes a line a comment if it is the first one. In a line of values it has no meaning.
        skip_rows: the number of lines at the beginning of each file, before its header, that are left out.
        encoding: of the files, any that Python knows. Text that is not UTF-8 is decoded by blocks; a resume decodes it
            from the beginning of its file.
        path_column: the name of an added column with the path of the file, without a password.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files and folders together.
        on_error: what happens to a row with too few or too many values, with one that does not fit its column, or with
            a quote that is not closed on its line; see `map`. It keeps its number.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file, line and column of a row with too few or too many values, a value that does not fit its
            column, a quote that is never closed, or not on its line if it must be; a file without a header, with other
            columns or in other folders; damaged compressed bytes. The rows before the error come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.csv").write_text('id,said\n1,"well, yes"\n2,no\n')
        >>> list(fp.list_files("a.csv").open_files().parse_csv())
        [{'id': 1, 'said': 'well, yes'}, {'id': 2, 'said': 'no'}]
    """
    return parse(pipe, Csv(**options), on_error)


@options_of(parse_csv, CsvOptions)
@dataclass(frozen=True, eq=False, kw_only=True)
class Csv(TextTable, TextFormat):
    """The arguments of `parse_csv`."""

    delimiter: str = ","
    header: bool | None = None
    column_names: Sequence[str] | None = None
    quote: str | None = '"'
    null_values: Sequence[str] = NULL_VALUES
    newlines_in_values: bool = True
    encoding: str = "utf-8"
    escape: str | None = None
    comment: str | None = None
    skip_rows: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "column_names", check_names("column_names", self.column_names))
        used: dict[str, str] = {}
        for name in ("delimiter", "quote", "escape", "comment"):
            if getattr(self, name) is None and name != "delimiter":
                continue
            char = _check_char(name, getattr(self, name))
            if char in used:
                raise ArgumentError(f"`{used[char]}` and `{name}` must differ but got: {char!r} for both")
            used[char] = name
        check_int("skip_rows", self.skip_rows, least=0)
        if not (self.header is None or isinstance(self.header, bool)):
            raise ArgumentTypeError(f"`header` must be True, False or None but got: {self.header!r}")
        nulls: object = self.null_values
        if isinstance(nulls, str) or not isinstance(nulls, Sequence) or not all(isinstance(v, str) for v in nulls):
            raise ArgumentTypeError(f"`null_values` must be a list of strings but got: {nulls!r}")
        if not isinstance(self.newlines_in_values, bool):
            raise ArgumentTypeError(f"`newlines_in_values` must be True or False but got: {self.newlines_in_values!r}")
        check_encoding(self.encoding)

    def as_utf8(self, stream: BinaryIO, path: str) -> BinaryIO:
        return stream if is_utf8(self.encoding) else io.BufferedReader(Utf8Stream(stream, path, self.encoding))

    def head(self, stream: BinaryIO, path: str) -> SampledHead | None:
        reader = ChunkReader(self.as_utf8(stream, path), path, self.last_record_end)
        start, names = self._read_names(reader)
        chunk = reader.peek(start, HEAD_BYTES)
        if names is None:
            names = self._numbered_names(chunk)
        if not names:  # an empty file, and no argument names its columns
            return None
        selected = names if self.columns is None else [name for name in self.columns if name in names]
        return infer_types(self._dialect, names, selected, check_schema(self.schema), chunk, reader.path)

    def check_names(self, source: str, names: Sequence[str]) -> None:
        for name in check_schema(self.schema):
            if name not in names:
                missing = "no file has a" if self.unify_schemas else f"{source} has no"
                raise DataError(f"{missing} column {name!r}, which `schema` names; {suggest_name(name, names)}")

    def why_not_split(self) -> str | None:
        if (reason := super().why_not_split()) is not None:
            return reason
        if not is_utf8(self.encoding):
            return "`encoding` is decoded from the beginning of a file"
        if self.newlines_in_values and (self.quote is not None or self.escape is not None):
            return "`newlines_in_values=False` splits them, if no quoted value holds a line break"
        return None

    def last_record_end(self, data: bytes) -> int:
        return self._dialect.last_record_end(data)

    def start_reading(self, reader: ChunkReader) -> tuple[TextPlace, ParseChunk]:
        whole = reader.whole()
        start, names = self._read_names(whole)
        fixed = self.require_fixed_schema(reader.path)
        if names is None and self.unify_schemas:
            names = self._numbered_names(whole.peek(start, ChunkSize.FIRST_BYTES))
        if names is None:
            names = list(fixed.all_columns)
        self._check_same_names(names, fixed, reader.path)
        existing = frozenset(names)
        types = {name: kind for name, kind in fixed.file_types.items() if name in existing}
        inferred = frozenset(types) - frozenset(check_schema(self.schema))
        parser = CsvParser(self._dialect, names, types, inferred, fixed.origin, self.encoding, reader)
        return start, self.with_extra_columns(parser.parse, reader.path, types)

    def row_lines(self, chunk: Chunk) -> list[int]:
        return [line for line, _, _ in self._dialect.records(chunk)]

    @property
    def _dialect(self) -> Dialect:
        quote = self.quote.encode() if self.quote else None
        escape, comment = (char.encode() if char else None for char in (self.escape, self.comment))
        words = pa.bool_() not in check_schema(self.schema).values()
        nulls = tuple(self.null_values)
        return Dialect(self.delimiter.encode(), quote, nulls, self.newlines_in_values, escape, comment, words)

    def _read_names(self, reader: ChunkReader) -> tuple[TextPlace, list[str] | None]:
        """The beginning of the records of a file, and the names of its columns if a header or the user gives them."""
        names = list(self.column_names) if self.column_names is not None else None
        begin = reader.after_lines(self.skip_rows) if self.skip_rows else TextPlace()
        if not (names is None if self.header is None else self.header):
            return begin, names
        for chunk in reader.chunks(begin, ChunkSize()):
            for line, start, end in self._dialect.records(chunk):
                return chunk.place(end), self._parse_header(chunk.data[start:end], f"{reader.path}, line {line}")
        raise DataError(
            f"{reader.path} is empty: it has no line with the names of its columns; leave the file out, or give "
            "`header=False` if the files have no such line"
        )

    def _numbered_names(self, chunk: Chunk | None) -> list[str]:
        """Names f0, f1 and so on, one for each value of the first record."""
        if chunk is not None:
            for _, start, end in self._dialect.records(chunk):
                return [f"f{i}" for i in range(len(split_record(self._dialect, chunk.data[start:end])))]
        return []

    def _parse_header(self, record: bytes, place: str) -> list[str]:
        """The names of the columns: those in the header `record`, unless `column_names` replaces them."""
        for fault in self._dialect.unclosed_quotes(record, last=False):
            raise DataError(f"{place}: {fault.problem}")
        try:
            names = [name.decode() for name in split_record(self._dialect, record)]
        except UnicodeDecodeError as error:
            encoding = "UTF-8" if is_utf8(self.encoding) else self.encoding
            raise DataError(
                f"{place}: the names of the columns are not {encoding}: {shorten(record)}; {REPAIR}"
            ) from error
        except DataError as error:
            raise DataError(f"{place}: the names of the columns cannot be read: {error}") from error
        if self.column_names is not None:
            if len(self.column_names) != len(names):
                raise DataError(
                    f"{place}: there are {len(names)} columns, and `column_names` has {len(self.column_names)} names"
                )
            return list(self.column_names)
        if (name := first_duplicate(names)) is not None:
            raise DataError(
                f"{place}: two columns have the name {name!r}; `column_names=[...], header=True` gives others"
            )
        return names

    def _check_same_names(self, names: Sequence[str], fixed: FixedSchema, file: str) -> None:
        """Raise a `DataError` unless a file has the fixed columns; it may have others if `columns` selects some."""
        existing = frozenset(names)
        for name in () if self.unify_schemas else fixed.file_types:
            if name not in existing:
                raise missing_column_error(file, name, names, fixed.source)
        for name in names if self.columns is None else ():
            if name not in fixed.file_types:
                raise unexpected_column_error(file, name, fixed.source, unified=self.unify_schemas)


def _check_char(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"`{name}` must be one character but got: {value!r}")
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ArgumentError(f"`{name}` must be one ASCII character and no line break but got: {value!r}")
    return value
