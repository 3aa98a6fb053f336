"""CSV: what the user says of the files, and what is fixed from the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..cursor import Json
from ..errors import ArgumentError, ArgumentTypeError, DataError, located
from ._arrow import HEAD
from .chunks import Chunk, ChunkReader, Growth, Parse, Place, brief
from .columns import Schema, check_names, check_schema, listed, nearest, plain, repeated
from .csv_table import Dialect, Table, Types, fields, infer
from .quotes import last_end

NULLS = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null")


@dataclass(frozen=True)
class Csv:
    """The arguments of `parse_csv`, and how they read a file."""

    kind: ClassVar[str] = "parse_csv"

    schema: Schema | None = None
    columns: Sequence[str] | None = None
    delimiter: str = ","
    header: bool | None = None
    column_names: Sequence[str] | None = None
    quote: str | None = '"'
    null_values: Sequence[str] = NULLS
    fixed: Types | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_schema(self.schema)
        object.__setattr__(self, "columns", check_names("columns", self.columns))
        object.__setattr__(self, "column_names", check_names("column_names", self.column_names))
        _check_char("delimiter", self.delimiter)
        if self.quote is not None:
            _check_char("quote", self.quote)
        if self.quote == self.delimiter:
            raise ArgumentError(located(f"`delimiter` and `quote` must differ but got: {self.quote!r} for both"))
        if not (self.header is None or isinstance(self.header, bool)):
            raise ArgumentTypeError(located(f"`header` must be True, False or None but got: {self.header!r}"))
        nulls: object = self.null_values
        if isinstance(nulls, str) or not isinstance(nulls, Sequence) or not all(isinstance(v, str) for v in nulls):
            raise ArgumentTypeError(located(f"`null_values` must be a list of strings but got: {nulls!r}"))

    def fix(self, readers: Iterator[ChunkReader]) -> Csv:
        best: Types | None = None
        for reader in readers:
            at, names = self._columns(reader)
            chunk = reader.peek(at, HEAD)
            if names is None:
                names = self._numbered(chunk)
            if not names:  # a file without a byte, and nothing says what it should hold
                continue
            self._check_known(names, reader.name)
            types, rows = infer(self._dialect, names, self.columns, check_schema(self.schema), chunk, reader.name)
            if best is None or rows:
                best = types
            if rows:
                break
        return self if best is None else replace(self, fixed=best)

    def types(self) -> Json:
        return None if self.fixed is None else plain(self.fixed.types)

    def cut(self, data: bytes) -> int:
        return last_end(data, self._dialect.delimiter, self._dialect.quote)

    def begin(self, reader: ChunkReader) -> tuple[Place, Parse]:
        at, names = self._columns(reader)
        fixed = self.fixed
        if fixed is None:
            raise DataError(
                f"{reader.name}: names and types of columns are fixed before the first row, from the first file of "
                "seed 0 and epoch 0, and then there was no file with any; a pipe that draws its files needs one there"
            )
        if names is None:
            names = list(fixed.names)
        self._check_same(names, fixed, reader.name)
        return at, Table(self._dialect, fixed, names, reader.name).parse

    def lines(self, chunk: Chunk) -> list[int]:
        return [line for line, _, _ in self._dialect.records(chunk)]

    @property
    def _dialect(self) -> Dialect:
        quote = self.quote.encode() if self.quote else None
        return Dialect(self.delimiter.encode(), quote, tuple(self.null_values))

    def _columns(self, reader: ChunkReader) -> tuple[Place, list[str] | None]:
        """Where the records of a file begin, and the names of its columns where that or the user says them."""
        given = list(self.column_names) if self.column_names is not None else None
        if not (given is None if self.header is None else self.header):
            return Place(), given
        for chunk in reader.chunks(Place(), Growth()):
            for line, start, end in self._dialect.records(chunk):
                return chunk.place(end), self._header(chunk.data[start:end], given, f"{reader.name}, line {line}")
        raise DataError(
            f"{reader.name} is empty: it has no line with the names of its columns; leave the file out, or give "
            "`header=False` where the files have no such line"
        )

    def _numbered(self, chunk: Chunk | None) -> list[str]:
        if chunk is not None:
            for _, start, end in self._dialect.records(chunk):
                return [f"f{i}" for i in range(len(fields(self._dialect, chunk.data[start:end])))]
        return []

    def _header(self, record: bytes, given: list[str] | None, place: str) -> list[str]:
        try:
            names = [name.decode() for name in fields(self._dialect, record)]
        except UnicodeDecodeError as error:
            raise DataError(f"{place}: the names of the columns are not UTF-8: {brief(record)}") from error
        except DataError as error:
            raise DataError(f"{place}: the names of the columns cannot be read: {error}") from error
        if given is not None:
            if len(given) != len(names):
                raise DataError(f"{place}: there are {len(names)} columns, and `column_names` has {len(given)} names")
            return given
        if (twice := repeated(names)) is not None:
            raise DataError(
                f"{place}: two columns have the name {twice!r}; `column_names=[...], header=True` gives others"
            )
        return names

    def _check_known(self, names: list[str], source: str) -> None:
        for argument, wanted in (("columns", self.columns or ()), ("schema", check_schema(self.schema))):
            for name in wanted:
                if name not in names:
                    raise DataError(
                        f"{source} has no column {name!r}, which `{argument}` names; {nearest(name, names)}"
                    )

    def _check_same(self, names: list[str], fixed: Types, source: str) -> None:
        for name in fixed.types:
            if name not in names:
                raise DataError(
                    f"{source} has no column {name!r}, and {fixed.source} has one; it has {listed(names)}; files with "
                    "different columns are read by pipes of their own, or `columns=` names those that all have"
                )
        for name in names if self.columns is None else ():
            if name not in fixed.names:
                raise DataError(
                    f"{source} has a column {name!r}, and {fixed.source} has none; `columns=` names those to read"
                )


def _check_char(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ArgumentTypeError(located(f"`{name}` must be one character but got: {value!r}"))
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ArgumentError(located(f"`{name}` must be one ASCII character and no line break but got: {value!r}"))
