"""Parquet: what the user wants of the files, and names and types, fixed once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..cursor import Json
from ..errors import ArgumentError, ArgumentTypeError, DataError, located
from ..graph import shown
from .columns import check_names, listed, nearest, plain, repeated
from .hive import folder_types
from .parquet_filter import check_filter, identified, needed_by
from .parquet_footer import Footer
from .parquet_types import settled

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Fixed:
    """Names and types, the same for all files.

    Attributes:
        inside: types of the columns that are read from the files, those for the filter alone included.
        folders: types of the columns that the names of folders give, likewise.
        names: the columns of the rows, in their order, without path and number.
        read: what pyarrow is told to read; None for all.
        needed: the columns in the filter.
        source: the first file.
    """

    inside: dict[str, pa.DataType]
    folders: dict[str, pa.DataType]
    names: tuple[str, ...]
    read: list[str] | None
    needed: tuple[str, ...]
    source: str

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {**self.inside, **self.folders}


@dataclass(frozen=True, eq=False)
class Parquet:
    """The user's options; `fixed` once the first file has been looked at."""

    kind: ClassVar[str] = "parse_parquet"

    columns: Sequence[str] | None = None
    filter: Any = None
    path_column: str | None = None
    row_column: str | None = None
    fixed: Fixed | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", check_names("columns", self.columns))
        check_filter(self.filter)
        for argument, name in self._lineage():
            if name is not None and not isinstance(name, str):
                raise ArgumentTypeError(located(f"`{argument}` must be the name of a column but got: {name!r}"))
        if self.path_column is not None and self.path_column == self.row_column:
            raise ArgumentError(
                located(f"`path_column` and `row_column` must differ but got: {self.path_column!r} for both")
            )

    def call(self) -> str:
        said = [f"columns={shown(self.columns)}"] if self.columns is not None else []
        said += [f"filter={' '.join(str(self.filter).split())}"] if self.filter is not None else []
        said += [f"{argument}={name!r}" for argument, name in self._lineage() if name is not None]
        return f"{self.kind}({', '.join(said)})"

    def identity(self) -> Json:
        """What a state is checked against."""
        fixed = self.fixed
        types = None if fixed is None else plain({name: fixed.types[name] for name in fixed.names})
        return {"call": self.call(), "types": types, "filter": identified(self.filter)}

    def fix(self, first: Footer, later: Iterable[Footer], paths: Iterable[str]) -> Parquet:
        """This with names and types fixed, by the first file.

        Args:
            first: that file's footer.
            later: those of the files after it; looked at where a column of nothing but nulls has no type in the first.
            paths: of all files; looked at where folders give columns.

        Raises:
            DataError: columns that are named are not there, a name stands for two, the filter does not fit.
        """
        if twice := repeated(first.schema.names):
            raise DataError(f"{first.name}: two columns have the name {twice!r}, and a row can hold only one of them")
        given = folder_types(first.name, paths, first.schema.names)
        whole = {part.name: settled(part.type) for part in first.schema} | given
        names, read, inside = self._chosen(first, given)
        folders = {name: kind for name, kind in given.items() if name in names}
        needed: tuple[str, ...] = ()
        if self.filter is not None:
            needed = needed_by(self.filter, inside, whole, first.name)
            more = [name for name in needed if name not in inside and name not in given]
            read = read if read is None else [*read, *more]
            inside |= {name: whole[name] for name in more}
            folders |= {name: given[name] for name in needed if name in given}
        for argument, name in self._lineage():
            if name in names:
                raise DataError(f"{first.name} has a column {name!r} already; `{argument}` needs another name")
        _type_nulls(inside, read, later)
        return replace(self, fixed=Fixed(inside, folders, names, read, needed, first.name))

    def _chosen(
        self, first: Footer, given: Mapping[str, pa.DataType]
    ) -> tuple[tuple[str, ...], list[str] | None, dict[str, pa.DataType]]:
        """The names of the rows' columns, what pyarrow is told to read, and the types of that."""
        if self.columns is None:
            inside = {part.name: settled(part.type) for part in first.schema}
            return (*inside, *given), None, inside
        read = first.knows(self.columns)
        inside = {part.name: settled(part.type) for part in first.reading(read)}
        names: dict[str, None] = {}
        for name in self.columns:
            if name not in read and name not in given:
                there = [*first.schema.names, *given]
                hint = nearest(name, there)
                hint += f"; there are {listed(there)}" if hint.startswith("did you mean") else ""
                raise DataError(f"{first.name} has no column {name!r}, which `columns` names; {hint}")
            names[next((top for top in inside if f"{name}.".startswith(f"{top}.")), name)] = None
        return tuple(names), read, inside

    def _lineage(self) -> list[tuple[str, str | None]]:
        return [("path_column", self.path_column), ("row_column", self.row_column)]


def _type_nulls(types: dict[str, pa.DataType], read: Sequence[str] | None, later: Iterable[Footer]) -> None:
    """Gives columns without a type, because the first file has nothing but nulls in them, the type of a later file."""
    import pyarrow as pa

    without = {name for name, kind in types.items() if pa.types.is_null(kind)}
    if not without:
        return
    for footer in later:
        for part in footer.reading(read):
            if part.name in without and not pa.types.is_null(part.type):
                types[part.name] = settled(part.type)
                without.discard(part.name)
        if not without:
            return
