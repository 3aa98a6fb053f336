"""Files that say the names and types of their columns: fixed by the first for all of them, or by all."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from ...core.checks import check_choice
from ...core.code import value_code
from ...core.cursor import Json
from ...errors import DataError
from .arrow_types import common, fits, settled
from .columns import UnifiedSchema, check_names, lacking, listed, nearest, plain, repeated, surplus
from .extra_columns import Lineage
from .hive import folder_types, folder_values

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T", bound="Typed")

_REPAIR = "leave the column out with `columns=`, or write one of the files anew"


class Head(Protocol):
    """What a file says of its columns."""

    name: str
    """The file's, for errors."""
    schema: pa.Schema

    def knows(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that the file has."""
        ...

    def reading(self, columns: Sequence[str] | None) -> pa.Schema:
        """Names and types of what is read where only `columns` are."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Names and types, the same for all files.

    Attributes:
        inside: types of the columns that are read from the files, those for a filter alone included.
        folders: types of the columns that the names of folders give, likewise.
        names: the columns of the rows, in their order, without path and number.
        read: what pyarrow is told to read; None for all.
        needed: the columns in the filter.
        source: the first file.
        unified: whether they are those of all files, and a file may lack some.
    """

    inside: dict[str, pa.DataType]
    folders: dict[str, pa.DataType]
    names: tuple[str, ...]
    read: list[str] | None
    needed: tuple[str, ...]
    source: str
    unified: bool

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {**self.inside, **self.folders}

    def has(self, head: Head) -> list[str]:
        """The columns of a file that are read from it.

        Raises:
            DataError: they are not those of the first file, nor become them without loss.
        """
        if head.name == self.source and not self.unified:
            return [*self.inside]
        known = None if self.read is None else head.knows(self.read)
        types = {part.name: part.type for part in head.reading(known)}
        if not self.unified:
            has = types if known is None else known
            for name in self.inside if self.read is None else self.read:
                if name not in has:
                    raise lacking(head.name, name, head.schema.names, self.source)
        for name, kind in types.items():
            if name not in self.inside:
                raise surplus(head.name, name, self.source, unified=self.unified)
            fixed = self.inside[name]
            repair = "" if self.unified else "`unify_schemas=True` looks for a type that can, or "
            if not (common(fixed, kind) == fixed if self.unified else fits(kind, fixed)):
                raise DataError(
                    f"{head.name}, column {name!r}: its type is {kind}, and {fixed} in {self.source}, "
                    f"which cannot hold all such values; {repair}leave the column out with `columns=`"
                )
        return [*types]

    def constants(self, path: str, has: Container[str]) -> dict[str, Any]:
        """The values, the same in all its rows, of the columns that a file does not have: of its folders, or null.

        Args:
            path: the file's.
            has: those of the columns that it has.

        Raises:
            DataError: a folder is missing, or its value does not fit.
        """
        types = {name: kind for name, kind in self.types.items() if name not in has}
        return folder_values(path, types, self.source, unify=self.unified)

    def cast(self, array: Any, name: str, file: str) -> Any:
        """Values of a column of a file, in the type that is fixed for it."""
        import pyarrow as pa

        kind = self.inside[name]
        try:
            return array if array.type == kind else array.cast(kind)
        except pa.ArrowException as error:
            raise DataError(
                f"{file}, column {name!r}: values of type {array.type} cannot become {kind}, the type "
                f"{'of all files together' if self.unified else f'in {self.source}'}: {error}"
            ) from error

    def cast_all(self, batch: pa.RecordBatch, file: str) -> pa.RecordBatch:
        """Rows of a file, each column in the type that is fixed for it."""
        import pyarrow as pa

        names = batch.schema.names
        columns = [self.cast(column, name, file) for name, column in zip(names, batch.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names) if names else batch


@dataclass(frozen=True, eq=False)
class Typed:
    """The user's options; `fixed` once the first file has been looked at, or all have."""

    kind: ClassVar[str]
    """The name of the chain function."""

    columns: Sequence[str] | None = None
    path_column: str | None = None
    row_column: str | None = None
    unify_schemas: bool = False
    fixed: Fixed | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", check_names("columns", self.columns))
        check_choice("unify_schemas", self.unify_schemas, (False, True))
        self.lineage.check()

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.path_column, self.row_column)

    def own(self) -> list[str]:
        """The user's arguments that not all such formats have, as code."""
        return []

    def call(self) -> str:
        said = [f"columns={value_code(self.columns)}"] if self.columns is not None else []
        said += self.own()
        said += [f"{name}={column!r}" for name, column in self.lineage._asdict().items() if column is not None]
        said += ["unify_schemas=True"] if self.unify_schemas else []
        return f"{self.kind}({', '.join(said)})"

    def identity(self) -> dict[str, Json]:
        """What a state is checked against."""
        fixed = self.fixed
        types = None if fixed is None else plain({name: fixed.types[name] for name in fixed.names})
        return {"call": self.call(), "types": types}

    def known(self, name: str) -> Fixed:
        """Names and types, when the file `name` comes."""
        if self.fixed is None:
            raise DataError(
                f"{name}: names and types of columns are fixed before the first row, from the first file of seed 0 and "
                "epoch 0, and then there was none; a pipe that draws its files needs one there"
            )
        return self.fixed

    def needed(self, first: Head, inside: Mapping[str, pa.DataType], whole: Mapping[str, pa.DataType]) -> Sequence[str]:
        """The columns that are needed beside those of the rows, or among them."""
        return ()

    def fix(self: T, heads: Iterable[Head], paths: Iterable[str]) -> T:
        """This with names and types fixed, by the first file, or with `unify_schemas` by all; as it is without a file.

        Args:
            heads: of all files. Those after the first are else looked at only where a column has no type there, as it
                has nothing but nulls.
            paths: of all files; looked at where folders give columns.

        Raises:
            DataError: columns that are named are not there, a name stands for two, types cannot be unified, a filter
                does not fit.
        """
        heads = iter(heads)
        first = next(heads, None) if self.fixed is None else None
        if first is None:
            return self
        whole, inside, read = self._seen(chain([first], heads if self.unify_schemas else ()))
        given = folder_types(first.name, paths, whole, unify=self.unify_schemas)
        names = self._names(first.name, [*whole, *given], inside, read)
        types = {name: inside.type(name) for name in names if name not in given}
        needed = tuple(self.needed(first, types, whole.types() | given))
        more = [name for name in needed if name not in types and name not in given]
        types |= {name: whole.type(name) for name in more}
        read = read if read is None else [*read, *more]
        folders = {name: kind for name, kind in given.items() if name in names or name in needed}
        self.lineage.check_free(names, "one of the files" if self.unify_schemas else first.name)
        _type_nulls(types, read, heads)
        return replace(self, fixed=Fixed(types, folders, names, read, needed, first.name, self.unify_schemas))

    def _seen(self, heads: Iterable[Head]) -> tuple[UnifiedSchema, UnifiedSchema, list[str] | None]:
        """All columns of some files, those that are read, and what pyarrow is told to read."""
        whole, inside = UnifiedSchema(_REPAIR), UnifiedSchema(_REPAIR)
        known: set[str] = set()
        for head in heads:
            if twice := repeated(head.schema.names):
                raise DataError(
                    f"{head.name}: two columns have the name {twice!r}, and a row can hold only one of them"
                )
            whole.add(head.name, _settled(head.schema))
            if self.columns is not None:
                read = head.knows(self.columns)
                known.update(read)
                inside.add(head.name, _settled(head.reading(read)))
        if self.columns is None:
            return whole, whole, None
        return whole, inside, [name for name in self.columns if name in known]

    def _names(self, source: str, there: list[str], inside: UnifiedSchema, read: list[str] | None) -> tuple[str, ...]:
        """The names of the rows' columns, given all that there are, in files and folders."""
        if self.columns is None or read is None:
            return tuple(there)
        names: dict[str, None] = {}
        for name in self.columns:
            if name not in read and name not in there:
                hint = nearest(name, there)
                hint += f"; there are {listed(there)}" if hint.startswith("did you mean") else ""
                said = "no file has a" if self.unify_schemas else f"{source} has no"
                raise DataError(f"{said} column {name!r}, which `columns` names; {hint}")
            names[next((top for top in inside if f"{name}.".startswith(f"{top}.")), name)] = None
        return tuple(names)


def _settled(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {part.name: settled(part.type) for part in schema}


def _type_nulls(types: dict[str, pa.DataType], read: Sequence[str] | None, later: Iterable[Head]) -> None:
    """Gives columns without a type, because the first file has nothing but nulls in them, the type of a later file."""
    import pyarrow as pa

    without = {name for name, kind in types.items() if pa.types.is_null(kind)}
    if not without:
        return
    for head in later:
        for part in head.reading(read):
            if part.name in without and not pa.types.is_null(part.type):
                types[part.name] = settled(part.type)
                without.discard(part.name)
        if not without:
            return
