"""Formats of tables: the names and types of columns that hold for all files, and the columns that no file holds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import Parameter
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self, TypedDict, TypeVar, cast
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_scalar
from ..core.checks import check_choice
from ..core.code import value_code
from ..core.cursor import Json
from ..core.lazy import pa
from ..core.rows import Column, Rows
from ..errors import ArgumentError, ArgumentTypeError, DataError, redacted
from .columns import (
    FlatHead,
    Schema,
    TableHead,
    UnifiedSchema,
    check_names,
    check_schema,
    common_type,
    decoded_type,
    first_duplicate,
    format_names,
    is_text,
    missing_column_error,
    plain_types,
    suggest_name,
    text_for,
    to_column,
    unexpected_column_error,
    value_type,
    widens_to,
    with_codes,
)
from .text import Chunk, ParseChunk, ParsedPart

F = TypeVar("F", bound="FormatOptions")

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder of null values."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")


class FormatOptions:
    """The base of formats: frozen values of the options of a chain function, with their defaults. See `options_of`."""

    kind: ClassVar[str]
    """The name of the chain function."""
    arguments: ClassVar[tuple[str, ...]] = ()
    """The names of the options, in the order in which `call` shows them."""

    def call(self) -> str:
        """The call of the chain function with these options, as code."""
        arguments = ((name, self.argument_code(name)) for name in self.arguments)
        return f"{self.kind}({', '.join(f'{name}={code}' for name, code in arguments if code is not None)})"

    def argument_code(self, name: str) -> str | None:
        """The value of an argument as code; None if it is the default."""
        value = getattr(self, name)
        return None if value == getattr(type(self), name) else value_code(value)


def options_of(parser: Callable[..., Any], options: Any) -> Callable[[type[F]], type[F]]:
    """A decorator of a format: it has the options of `parser`, which gets a signature with each of them.

    Args:
        parser: a chain function that takes `**options`.
        options: their names and types, a `TypedDict`. The format has a field of each name, with its default.
    """

    def decorate(form: type[F]) -> type[F]:
        form.kind = parser.__name__
        form.arguments = tuple(options.__annotations__)
        given = inspect.signature(parser)
        before, after = (
            [p for p in given.parameters.values() if p.kind is kind]
            for kind in (Parameter.POSITIONAL_ONLY, Parameter.KEYWORD_ONLY)
        )
        named = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(form, name), annotation=hint.__forward_arg__)
            for name, hint in options.__annotations__.items()
        ]
        parser.__signature__ = given.replace(parameters=[*before, *named, *after])  # type: ignore[attr-defined]
        return form

    return decorate


class TableOptions(TypedDict, total=False):
    """The options that all formats of tables share."""

    columns: Sequence[str] | None
    path_column: str | None
    row_column: str | None
    unify_schemas: bool


class TextTableOptions(TableOptions, total=False):
    """The options that CSV and JSON lines share."""

    schema: Schema | None


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFormat(FormatOptions):
    """The base of formats of tables, with the options that all of them share.

    Before the first row, `fix` sets `fixed_schema` by the first file or, with `unify_schemas`, by all files.
    """

    type_repair: ClassVar[str] = "leave the column out with `columns=`, or write one of the files again"
    """Advice for a column whose values in all files fit no type."""

    columns: Sequence[str] | None = None
    path_column: str | None = None
    row_column: str | None = None
    unify_schemas: bool = False
    fixed_schema: FixedSchema | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", check_names("columns", self.columns))
        check_choice("unify_schemas", self.unify_schemas, (False, True))
        self.lineage.check()

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.path_column, self.row_column)

    def identity(self) -> dict[str, Json]:
        """What a state is checked against."""
        fixed = self.fixed_schema
        types = None if fixed is None else plain_types(fixed.row_types)
        return {"call": self.call(), "types": types}

    def row_schema(self) -> pa.Schema | None:
        """Names and types of the columns of the rows; None before they are fixed."""
        fixed = self.fixed_schema
        if fixed is None:
            return None
        types = fixed.row_types
        path, row = self.lineage
        types |= {path: pa.string()} if path is not None else {}
        types |= {row: pa.int64()} if row is not None else {}
        return pa.schema(list(types.items()))

    def require_fixed_schema(self, file: str) -> FixedSchema:
        """Names and types to read `file` with; a `DataError` if there was no file to fix them by."""
        if self.fixed_schema is None:
            raise DataError(
                f"{file}: names and types of columns are fixed before the first row, by the first file of seed 0 and "
                "epoch 0, and there was no file with columns then; a pipe that draws its files at random needs one "
                "there"
            )
        return self.fixed_schema

    def to_rows(self, batch: pa.RecordBatch, path: str, numbers: range) -> Rows:
        """The rows of a batch of a file, with the fixed types; `numbers` are those of the rows in the file, from 0."""
        fixed = self.require_fixed_schema(path)
        batch = fixed.cast_batch(batch, path)
        columns = {name: to_column(batch.column(k)) for k, name in enumerate(batch.schema.names)}
        return self.extend(columns, fixed.constants(path, columns), path, numbers)

    def extend(self, columns: Mapping[str, Column], constants: Mapping[str, Any], path: str, numbers: range) -> Rows:
        """Rows of a file, given its columns and the constants of others; `numbers` are those of rows in the file."""
        fixed, count = self.require_fixed_schema(path), len(numbers)
        columns = {**columns, **{name: pa.repeat(value, count) for name, value in constants.items()}}
        columns = {name: columns[name] for name in fixed.names}
        return Rows({**columns, **self.lineage.columns_for(path, numbers)}, count)

    def fix(self, heads: Iterable[TableHead | None], paths: Iterable[str]) -> Self:
        """Fix names and types by the first file, or with `unify_schemas` by all; without a file, return `self`.

        Args:
            heads: of all files, read lazily; None for a file without columns. Without `unify_schemas`, heads after the
                first are read only to find rows, or a type for a column that has only nulls in the first file.
            paths: of all files, for the columns that the names of folders give.
        """
        heads = iter(self.select_heads(heads) if self.fixed_schema is None else ())
        first = next(heads, None)
        if first is None:
            return self
        whole, selected, read = self._unify(chain([first], heads if self.unify_schemas else ()))
        folders = self.folder_types(first.name, paths, [*whole])
        names = self._row_columns(first.name, [*whole, *folders], selected, read)
        self.check_names(first.name, [*whole])
        types = {name: selected.type(name) for name in names if name not in folders}
        filter_columns = tuple(self.filter_columns(first.name, types, whole, folders))
        more = [name for name in filter_columns if name not in types and name not in folders]
        types |= {name: whole.type(name) for name in more}
        read = read if read is None else [*read, *more]
        folders = {name: kind for name, kind in folders.items() if name in names or name in filter_columns}
        self.lineage.check_free(names, "one of the files" if self.unify_schemas else first.name)
        fixed = FixedSchema(
            file_types=self.replace_nulls(types, read, heads),
            folder_types=folders,
            names=names,
            read_columns=read,
            filter_columns=filter_columns,
            all_columns=tuple(whole),
            source=first.name,
            unified=self.unify_schemas,
        )
        return replace(self, fixed_schema=fixed)

    def select_heads(self, heads: Iterable[TableHead | None]) -> Iterator[TableHead]:
        """The heads that may fix names and types, the most important first."""
        return (head for head in heads if head is not None)

    def decode_types(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        """The types that columns of a file have once they are read."""
        return {field.name: decoded_type(field.type) for field in schema}

    def check_names(self, source: str, names: Sequence[str]) -> None:
        """Raise a `DataError` if an argument other than `columns` names a column that files do not have."""

    def missing_name_error(self, source: str, name: str, names: Sequence[str]) -> DataError:
        """The error if `columns` names a column that neither files nor folders have."""
        listed, hint = f"there are {format_names(names)}", suggest_name(name, names)
        hint = listed if hint == listed else f"{listed}; {hint}"
        missing = "no file has a" if self.unify_schemas else f"{source} has no"
        return DataError(f"{missing} column {name!r}, which `columns` names; {hint}")

    def folder_types(self, first: str, paths: Iterable[str], taken: Sequence[str]) -> dict[str, pa.DataType]:
        """The types of the columns that the names of folders give, except those that are `taken`."""
        return folder_types(first, chain([first], paths), taken, unify=self.unify_schemas)

    def filter_columns(
        self, source: str, types: Mapping[str, pa.DataType], whole: UnifiedSchema, folders: Mapping[str, pa.DataType]
    ) -> Sequence[str]:
        """The columns that a filter needs, given those of the rows, of the files, and of the folders."""
        return ()

    def replace_nulls(
        self, types: Mapping[str, pa.DataType], read: Sequence[str] | None, later: Iterable[TableHead]
    ) -> dict[str, pa.DataType]:
        """`types`, where a column that has only nulls in the first file gets its type from a later file."""
        types = dict(types)
        untyped = {name for name, kind in types.items() if pa.types.is_null(kind)}
        for head in later if untyped else ():
            for name, kind in self.decode_types(head.schema_of(read)).items():
                if name in untyped and not pa.types.is_null(kind):
                    types[name] = kind
                    untyped.discard(name)
            if not untyped:
                break
        return types

    def _unify(self, heads: Iterable[TableHead]) -> tuple[UnifiedSchema, UnifiedSchema, list[str] | None]:
        """All columns of some files, the selected ones, and the names to ask the reader for."""
        whole, selected = UnifiedSchema(self.type_repair), UnifiedSchema(self.type_repair)
        existing: set[str] = set()
        for head in heads:
            if name := first_duplicate(head.schema.names):
                raise DataError(f"{head.name}: two columns have the name {name!r}, and a row can hold only one of them")
            whole.add(head.name, self.decode_types(head.schema))
            if self.columns is not None:
                names = head.existing(self.columns)
                existing.update(names)
                selected.add(head.name, self.decode_types(head.schema_of(names)))
        if self.columns is None:
            return whole, whole, None
        return whole, selected, [name for name in self.columns if name in existing]

    def _row_columns(
        self, source: str, names: Sequence[str], selected: UnifiedSchema, read: Sequence[str] | None
    ) -> tuple[str, ...]:
        """The names of the columns of the rows, given all `names` of files and folders."""
        if self.columns is None or read is None:
            return tuple(names)
        columns: dict[str, None] = {}
        existing = {*read, *names}
        for name in self.columns:
            if name not in existing:
                raise self.missing_name_error(source, name, names)
            # A name with a dot may lead into a column of structs, which is then the column of the row.
            top = name if name in selected else next((n for n in selected if name.startswith(f"{n}.")), name)
            columns[top] = None
        return tuple(columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledTable(TableFormat):
    """The base of CSV, JSON lines and TFRecord: names and types are inferred from the first rows of a file."""

    def why_not_split(self) -> str | None:
        """The reason why files are not split into ranges; None if they are."""
        return None if self.row_column is None else "`row_column` counts from the beginning of a file"

    def select_heads(self, heads: Iterable[TableHead | None]) -> Iterator[TableHead]:
        """All heads if columns are unified; else the first of a file that has rows, or the first of all."""
        first: TableHead | None = None
        for head in heads:
            if head is None:
                continue
            if self.unify_schemas:
                yield head
            elif isinstance(head, SampledHead) and head.has_rows:
                yield head
                return
            first = first or head
        if first is not None and not self.unify_schemas:
            yield first

    def decode_types(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        return {field.name: field.type for field in schema}


@dataclass(frozen=True, eq=False, kw_only=True)
class TextTable(SampledTable):
    """The base of CSV and JSON lines, where the user may give types."""

    type_repair: ClassVar[str] = "`schema=` gives it a type, `columns=` leaves it out"

    schema: Schema | None = None

    def __post_init__(self) -> None:
        check_schema(self.schema)
        super().__post_init__()

    def replace_nulls(
        self, types: Mapping[str, pa.DataType], read: Sequence[str] | None, later: Iterable[TableHead]
    ) -> dict[str, pa.DataType]:
        """`types`, with text for columns that have only nulls in all heads."""
        return {name: text_for("null", kind) for name, kind in types.items()}

    def with_extra_columns(
        self, parse: Callable[[Chunk], Iterable[ParsedPart]], path: str, columns: Iterable[str]
    ) -> ParseChunk:
        """Extend `parse` for the file at `path`, which holds these columns, by those that it does not hold."""
        constants = self.require_fixed_schema(path).constants(path, columns)

        def parse_all(chunk: Chunk, before: int) -> Iterator[ParsedPart]:
            for part in parse(chunk):
                rows, count = part.rows, len(part.rows) if part.error is None else 1
                if isinstance(rows, Rows):
                    rows = self.extend(rows.columns, constants, path, range(before, before + count))
                before += count
                yield part._replace(rows=rows)

        return parse_all


class SampledHead(FlatHead):
    """The columns that the first bytes of a file show, and whether they hold a row."""

    def __init__(self, name: str, types: Mapping[str, pa.DataType], *, has_rows: bool) -> None:
        super().__init__(name, pa.schema(list(types.items())))
        self.has_rows = has_rows


@dataclass(frozen=True, kw_only=True)
class FixedSchema:
    """Names and types of columns, the same for all files of a pipe.

    Attributes:
        file_types: types of the columns that are read from the files, those that only a filter needs included.
        folder_types: types of the columns that the names of folders give, likewise.
        names: the columns of the rows, in their order, without path and row number.
        read_columns: the columns to read from files, as the reader is asked for them; None for all.
        filter_columns: the columns in the filter.
        all_columns: all columns of the files, read or not.
        source: the file that names and types come from; the first one if they come from all.
        unified: whether names and types come from all files, so that a file may lack some columns.
    """

    file_types: dict[str, pa.DataType]
    folder_types: dict[str, pa.DataType] = field(default_factory=dict)
    names: tuple[str, ...]
    read_columns: list[str] | None = None
    filter_columns: tuple[str, ...] = ()
    all_columns: tuple[str, ...]
    source: str
    unified: bool = False

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Types of all columns, of files and folders."""
        return {**self.file_types, **self.folder_types}

    @property
    def row_types(self) -> dict[str, pa.DataType]:
        """Types of the columns of the rows, in their order, without path and row number."""
        types = self.types
        return {name: types[name] for name in self.names}

    @property
    def origin(self) -> str:
        """Where names and types come from, for errors."""
        return "all files" if self.unified else self.source

    def with_dictionaries(self, names: Iterable[str]) -> FixedSchema:
        """With codes of dictionaries in columns of text or bytes."""
        coded: dict[str, pa.DataType] = {}
        for name in names:
            kind = self.file_types.get(name)
            if kind is None:
                hint = suggest_name(name, self.file_types)
                raise DataError(f"{self.origin} has no column {name!r}, which `dictionaries` names; {hint}")
            if not is_text(kind):
                raise DataError(
                    f"{self.origin}, column {name!r}: its type is {kind}, and only text and bytes can be codes of a "
                    "dictionary; leave it out of `dictionaries`"
                )
            coded[name] = pa.dictionary(pa.int32(), cast("Any", kind))
        return replace(self, file_types={**self.file_types, **coded}) if coded else self

    def columns_in(self, head: TableHead) -> list[str]:
        """The columns that are read from a file; a `DataError` if they do not fit those fixed."""
        if head.name == self.source and not self.unified:
            return [*self.file_types]
        existing = None if self.read_columns is None else head.existing(self.read_columns)
        types = {field.name: field.type for field in head.schema_of(existing)}
        if not self.unified:
            names = frozenset(types if existing is None else existing)
            for name in self.file_types if self.read_columns is None else self.read_columns:
                if name not in names:
                    raise missing_column_error(head.name, name, head.schema.names, self.source)
        for name, kind in types.items():
            if name not in self.file_types:
                raise unexpected_column_error(head.name, name, self.source, unified=self.unified)
            fixed = value_type(self.file_types[name])
            repair = "" if self.unified else "`unify_schemas=True` looks for a type that can, or "
            if not (common_type(fixed, kind) == fixed if self.unified else widens_to(kind, fixed)):
                raise DataError(
                    f"{head.name}, column {name!r}: its type is {kind}, and {fixed} in {self.source}, "
                    f"which cannot hold all such values; {repair}leave the column out with `columns=`"
                )
        return [*types]

    def constants(self, path: str, columns: Iterable[str], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The values of columns that a file does not have, as Arrow scalars; null if nothing else says them.

        Args:
            path: the path of the file.
            columns: the columns that the file has.
            values: of other columns, from the log of a table; None if the names of folders say them.
        """
        existing = frozenset(columns)
        types = {name: value_type(kind) for name, kind in self.types.items() if name not in existing}
        if values is None:
            return folder_values(path, types, self.source, unify=self.unified)
        return {name: values.get(name, arrow_scalar(None, kind)) for name, kind in types.items()}

    def cast(self, array: Any, name: str, file: str) -> Any:
        """Cast values of a column of a file to the fixed type."""
        kind = self.file_types[name]
        try:
            if array.type == kind:
                return array
            return with_codes(array, kind) if pa.types.is_dictionary(kind) else array.cast(kind)
        except pa.ArrowException as error:
            raise DataError(
                f"{file}, column {name!r}: values of type {array.type} cannot become {kind}, the type "
                f"{'of all files together' if self.unified else f'in {self.source}'}: {error}"
            ) from error

    def cast_batch(self, batch: pa.RecordBatch, file: str) -> pa.RecordBatch:
        """Cast all columns of a batch of a file to the fixed types."""
        names = batch.schema.names
        columns = [self.cast(column, name, file) for name, column in zip(names, batch.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names) if names else batch


@dataclass(frozen=True)
class DeclaredSchema(FixedSchema):
    """Names and types that the log of a table declares for all of its files.

    A file may lack columns, which are null there, and have others, which are not read. Writers store a declared type in
    several ways, such as timestamps in 96 bits. So types may differ, and Arrow checks the values as it casts them.
    """

    @staticmethod
    def of(schema: FixedSchema) -> DeclaredSchema:
        values: dict[str, Any] = {each.name: getattr(schema, each.name) for each in fields(schema)}
        values["read_columns"] = [*schema.file_types]
        return DeclaredSchema(**values)

    def columns_in(self, head: TableHead) -> list[str]:
        stored = head.schema_of(head.existing(self.read_columns or ()))
        for column in stored:
            declared = self.file_types[column.name]
            if not _stores(column.type, declared):
                raise DataError(
                    f"{head.name}, column {column.name!r}: its type is {column.type}, and {declared} in {self.source}, "
                    "which cannot hold all such values; leave the column out with `columns=`"
                )
        return stored.names


def _stores(kind: Any, declared: Any) -> bool:
    """Whether a column of type `kind` may hold values of the declared type, which a cast checks one by one."""
    types: Any = pa.types
    families = (types.is_integer, types.is_timestamp, types.is_decimal, types.is_nested)
    return widens_to(kind, declared) or any(is_kind(kind) and is_kind(declared) for is_kind in families)


class Lineage(NamedTuple):
    """The names of the columns for the path of the file and the number of the row in it; None for no such column."""

    path_column: str | None
    row_column: str | None

    def check(self) -> None:
        """Check the user's arguments."""
        for argument, name in self._asdict().items():
            if name is not None and not isinstance(name, str):
                raise ArgumentTypeError(f"`{argument}` must be the name of a column but got: {name!r}")
        if self.path_column is not None and self.path_column == self.row_column:
            raise ArgumentError(f"`path_column` and `row_column` must differ but got: {self.path_column!r} for both")

    def check_free(self, names: Container[str], source: str) -> None:
        """Raise a `DataError` if the rows of `source` already have a column with one of these names."""
        for argument, name in self._asdict().items():
            if name in names:
                raise DataError(f"{source} has a column {name!r} already; `{argument}` needs another name")

    def columns_for(self, path: str, numbers: npt.NDArray[np.int64] | range) -> dict[str, Column]:
        """The columns for the rows with these numbers, counted from 0; the path without its password."""
        columns: dict[str, Column] = {}
        if self.path_column is not None:
            columns[self.path_column] = pa.repeat(arrow_scalar(redacted(path), pa.string()), len(numbers))
        if self.row_column is not None:
            if isinstance(numbers, range):
                numbers = np.arange(numbers.start, numbers.stop, dtype=np.int64)
            numbers.flags.writeable = False
            columns[self.row_column] = numbers
        return columns


def parse_folders(path: str) -> dict[str, str | None]:
    """The columns in the names of the folders of `path`, with their text; None for a missing value.

    Of a path that a listing has found, only folders below its `root` count.
    """
    values: dict[str, str | None] = {}
    is_url, path = "://" in path, path[getattr(path, "root", 0) :]
    if is_url:
        path = path.partition("?")[0]  # options follow, and their values may hold slashes
    for folder in path.split("/")[:-1]:
        name, equals, text = folder.partition("=")
        if name and equals:
            values[unquote(name)] = None if text == NULL else unquote(text)
    return values


def folder_types(
    first: str, paths: Iterable[str], taken: Container[str], *, unify: bool = False
) -> dict[str, pa.DataType]:
    """The types of the columns in the names of the folders of `first`: int64 if all values are such, else string.

    Args:
        first: the path of the first file.
        paths: the paths of all files.
        taken: names of columns of the files, which win.
        unify: whether the folders of all paths give columns, not only those of `first`.
    """
    names = dict.fromkeys(parse_folders(first))
    text_columns: set[str] = set()
    seen: set[tuple[str, str | None]] = set()
    previous = ""
    for path in paths if names or unify else ():
        folder = path.rpartition("/")[0]
        if folder == previous:  # the files of one folder follow each other
            continue
        previous = folder
        for name, text in parse_folders(path).items():
            if (name, text) not in seen:
                seen.add((name, text))
                if unify:
                    names.setdefault(name)
                if text is not None and not _is_int64(text):
                    text_columns.add(name)
    return {name: pa.string() if name in text_columns else pa.int64() for name in names if name not in taken}


def folder_values(path: str, types: Mapping[str, pa.DataType], first: str, *, unify: bool = False) -> dict[str, Any]:
    """The values in the names of the folders of `path`, as Arrow scalars.

    With `unify` a missing folder is null, else an error, which names the `first` file.
    """
    texts = parse_folders(path) if types else {}
    values: dict[str, Any] = {}
    for name, kind in types.items():
        if name not in texts and not unify:
            raise DataError(
                f"{path} is in no folder {name}=..., and {first} is; `unify_schemas=True` takes that for a null, or "
                "`columns=` names columns that all files have"
            )
        text = texts.get(name)
        try:
            values[name] = _scalar(text, kind)
        except (ValueError, NotImplementedError) as error:  # Arrow's errors are such
            raise DataError(f"{path}: {text!r} in the name of its folder is no {kind}, as in {first}") from error
    return values


def _is_int64(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _scalar(text: str | None, kind: Any) -> Any:
    if text is not None and str(kind) == "int64" and not _is_int64(text):  # Arrow would take others, such as 0x7
        raise ValueError(text)
    return arrow_scalar(None, kind) if text is None else arrow_scalar(text).cast(kind)
