"""`TableFormat`: the options of a format of tables, and how they fix names and types of columns for all files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.checks import check_choice
from ...core.code import value_code
from ...core.cursor import Json
from ...core.rows import Rows
from ...errors import DataError
from .arrow import to_column
from .arrow_types import decoded_type
from .columns import UnifiedSchema, check_names, first_duplicate, format_names, plain_types, suggest_name
from .fixed_schema import FixedSchema
from .heads import TableHead
from .hive import folder_types
from .lineage import Lineage

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T", bound="TableFormat")


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFormat:
    """The base: the options that all formats of tables share.

    Before the first row, `fix` sets `fixed_schema` by the first file or, with `unify_schemas`, by all files.
    """

    kind: ClassVar[str]
    """The name of the chain function."""
    arguments: ClassVar[tuple[str, ...]]
    """The names of the user's arguments, in the order in which `call` shows them."""
    type_repair: ClassVar[str] = "leave the column out with `columns=`, or write one of the files anew"
    """What the user can do if no type holds the values of a column in all files."""

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

    def call(self) -> str:
        """The call of the chain function with these options, as code."""
        arguments = ((name, self.argument_code(name)) for name in self.arguments)
        return f"{self.kind}({', '.join(f'{name}={code}' for name, code in arguments if code is not None)})"

    def argument_code(self, name: str) -> str | None:
        """The value of an argument as code; None if it is the default."""
        value = getattr(self, name)
        return None if value == getattr(type(self), name) else value_code(value)

    def identity(self) -> dict[str, Json]:
        """What a state is checked against."""
        fixed = self.fixed_schema
        types = None if fixed is None else plain_types(fixed.row_types)
        return {"call": self.call(), "types": types}

    def row_schema(self) -> pa.Schema | None:
        """Names and types of the columns of the rows; None before they are fixed."""
        import pyarrow as pa

        fixed = self.fixed_schema
        if fixed is None:
            return None
        types = fixed.row_types
        path, row = self.lineage
        types |= {path: pa.string()} if path is not None else {}
        types |= {row: pa.int64()} if row is not None else {}
        return pa.schema(list(types.items()))

    def require_fixed_schema(self, file: str) -> FixedSchema:
        """Names and types to read `file` with.

        Raises:
            DataError: there was no file to fix them by.
        """
        if self.fixed_schema is None:
            raise DataError(
                f"{file}: names and types of columns are fixed before the first row, by the first file of seed 0 and "
                "epoch 0, and there was no file with columns then; a pipe that draws its files at random needs one "
                "there"
            )
        return self.fixed_schema

    def to_rows(self, batch: pa.RecordBatch, path: str, numbers: range) -> Rows:
        """The rows of a batch of a file, with the types that are fixed, and with the columns that files do not hold.

        Args:
            batch: has the columns that are read of this file.
            path: the path of the file.
            numbers: those of the rows in the file, counted from 0.

        Raises:
            DataError: values do not fit.
        """
        import pyarrow as pa

        fixed = self.require_fixed_schema(path)
        batch = fixed.cast_batch(batch, path)
        columns = {name: to_column(batch.column(k)) for k, name in enumerate(batch.schema.names)}
        for name, value in fixed.constants(path, columns).items():
            columns[name] = pa.repeat(value, len(numbers))
        columns = {name: columns[name] for name in fixed.names}
        return Rows({**columns, **self.lineage.columns_for(path, numbers)}, len(numbers))

    def fix(self: T, heads: Iterable[TableHead | None], paths: Iterable[str]) -> T:
        """Fix names and types by the first file, or with `unify_schemas` by all; without a file, return `self`.

        Args:
            heads: of all files, read lazily; None for a file without columns. Without `unify_schemas`, heads after the
                first are read only to find rows, or a type for a column that has only nulls in the first file.
            paths: of all files, for the columns that the names of folders give.

        Raises:
            DataError: a named column does not exist, two columns have one name, types cannot be unified, or a filter
                does not fit.
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
        """The types of the columns that the names of folders give, except those that are taken.

        Args:
            first: the path of the first file.
            paths: of all files.
            taken: the columns of the files.
        """
        return folder_types(first, chain([first], paths), taken, unify=self.unify_schemas)

    def filter_columns(
        self, source: str, types: Mapping[str, pa.DataType], whole: UnifiedSchema, folders: Mapping[str, pa.DataType]
    ) -> Sequence[str]:
        """The columns that a filter needs.

        Args:
            source: the first file.
            types: of the columns of the rows that come from files.
            whole: all columns of the files.
            folders: types of the columns that folders give.
        """
        return ()

    def replace_nulls(
        self, types: Mapping[str, pa.DataType], read: Sequence[str] | None, later: Iterable[TableHead]
    ) -> dict[str, pa.DataType]:
        """`types`, where a column that has only nulls in the first file gets its type from a later file."""
        import pyarrow as pa

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
