"""CSV: what the user says of the files, and what is fixed before their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from ...core.checks import check_choice
from ...core.cursor import Json
from ...errors import ArgumentError, ArgumentTypeError, DataError, with_call_site
from ..tables.arrow import HEAD
from ..tables.arrow_types import text_for
from ..tables.columns import Schema, check_names, check_schema, lacking, nearest, repeated, surplus
from ..tables.extra_columns import Added, Lineage, added
from ..tables.hive import folder_types
from ..tables.inference import Head, look_at
from ..text.chunks import Chunk, ChunkReader, Growth, Parse, Place, brief
from .quotes import last_end
from .table import Dialect, Table, Types, fields, infer

if TYPE_CHECKING:
    import pyarrow as pa

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
    newlines_in_values: bool = True
    path_column: str | None = None
    row_column: str | None = None
    unify_schemas: bool = False
    fixed: Types | None = field(default=None, repr=False)
    added: Added | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_schema(self.schema)
        object.__setattr__(self, "columns", check_names("columns", self.columns))
        object.__setattr__(self, "column_names", check_names("column_names", self.column_names))
        _check_char("delimiter", self.delimiter)
        if self.quote is not None:
            _check_char("quote", self.quote)
        if self.quote == self.delimiter:
            raise ArgumentError(with_call_site(f"`delimiter` and `quote` must differ but got: {self.quote!r} for both"))
        if not (self.header is None or isinstance(self.header, bool)):
            raise ArgumentTypeError(with_call_site(f"`header` must be True, False or None but got: {self.header!r}"))
        nulls: object = self.null_values
        if isinstance(nulls, str) or not isinstance(nulls, Sequence) or not all(isinstance(v, str) for v in nulls):
            raise ArgumentTypeError(with_call_site(f"`null_values` must be a list of strings but got: {nulls!r}"))
        if not isinstance(self.newlines_in_values, bool):
            raise ArgumentTypeError(
                with_call_site(f"`newlines_in_values` must be True or False but got: {self.newlines_in_values!r}")
            )
        check_choice("unify_schemas", self.unify_schemas, (False, True))
        self.lineage.check()

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.path_column, self.row_column)

    def head(self, reader: ChunkReader) -> Head | None:
        at, names = self._columns(reader)
        chunk = reader.peek(at, HEAD)
        if names is None:
            names = self._numbered(chunk)
        if not names:  # a file without a byte, and nothing says what it should hold
            return None
        wanted = names if self.columns is None else [name for name in self.columns if name in names]
        return infer(self._dialect, names, wanted, check_schema(self.schema), chunk, reader.name)

    def fix(self, heads: Iterable[Head | None], paths: Iterable[str]) -> Csv:
        found = look_at(heads, unify=self.unify_schemas) if self.fixed is None else None
        if found is None:
            return self
        source, schema = found
        names = [*schema]
        given = folder_types(source, chain([source], paths), names, unify=self.unify_schemas)
        self._check_known(names, [*given], source)
        types: dict[str, pa.DataType] = {}
        for name in self.columns or names:
            if name in names:
                types[name] = text_for("null", schema.type(name))
        inferred = frozenset(types) - frozenset(check_schema(self.schema))
        seen = "all files" if self.unify_schemas else source
        more = added(names, given, self.columns, self.lineage, source, unified=self.unify_schemas)
        return replace(self, fixed=Types(tuple(names), types, inferred, seen), added=more)

    def uncut(self) -> str | None:
        if self.row_column is not None:
            return "`row_column` counts from the beginning of a file"
        if self._dialect.multiline is not None:
            return "`newlines_in_values=False` cuts them, where no quoted value holds a line break"
        return None

    def types(self) -> Json:
        return None if self.fixed is None or self.added is None else self.added.types(self.fixed.types)

    def cut(self, data: bytes) -> int:
        return last_end(data, self._dialect.delimiter, self._dialect.multiline)

    def begin(self, reader: ChunkReader) -> tuple[Place, Parse]:
        whole = reader.whole()
        at, names = self._columns(whole)
        fixed = self.fixed
        if fixed is None or self.added is None:
            raise DataError(
                f"{reader.name}: names and types of columns are fixed before the first row, from the first file of "
                "seed 0 and epoch 0, and then there was no file with any; a pipe that draws its files needs one there"
            )
        if names is None and self.unify_schemas:
            names = self._numbered(whole.peek(at, Growth.FIRST))
        if names is None:
            names = list(fixed.names)
        self._check_same(names, fixed, reader.name, self.added.source)
        own = {name: kind for name, kind in fixed.types.items() if name in names}
        others = {name: kind for name, kind in fixed.types.items() if name not in names}
        table = Table(self._dialect, replace(fixed, types=own), names, reader)
        return at, self.added.after(table.parse, reader.name, others)

    def lines(self, chunk: Chunk) -> list[int]:
        return [line for line, _, _ in self._dialect.records(chunk)]

    @property
    def _dialect(self) -> Dialect:
        quote = self.quote.encode() if self.quote else None
        return Dialect(self.delimiter.encode(), quote, tuple(self.null_values), self.newlines_in_values)

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
        if (said := self._dialect.unclosed(record, last=False)) is not None:
            raise DataError(f"{place}: {said[1]}")
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

    def _check_known(self, names: list[str], folders: list[str], source: str) -> None:
        whole = [*names, *folders]
        said = "no file has a" if self.unify_schemas else f"{source} has no"
        for argument, wanted, known in (
            ("columns", self.columns or (), whole),
            ("schema", check_schema(self.schema), names),
        ):
            for name in wanted:
                if name not in known:
                    raise DataError(f"{said} column {name!r}, which `{argument}` names; {nearest(name, known)}")

    def _check_same(self, names: list[str], fixed: Types, file: str, source: str) -> None:
        for name in () if self.unify_schemas else fixed.types:
            if name not in names:
                raise lacking(file, name, names, source)
        for name in names if self.columns is None else ():
            if name not in fixed.names:
                raise surplus(file, name, source, unified=self.unify_schemas)


def _check_char(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ArgumentTypeError(with_call_site(f"`{name}` must be one character but got: {value!r}"))
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ArgumentError(
            with_call_site(f"`{name}` must be one ASCII character and no line break but got: {value!r}")
        )
