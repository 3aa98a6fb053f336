"""`Parquet`: the options of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...core.cursor import Json
from ...core.row_bytes import row_width
from ..tables.columns import UnifiedSchema
from ..tables.expressions import filter_problem, used_columns
from ..tables.heads import TableHead
from ..tables.table_format import TableFormat
from .filter import check_filter, columns_in_filter, filter_identity

if TYPE_CHECKING:
    import pyarrow as pa


class LaterChoice(NamedTuple):
    """The columns that a `select` keeps, which follows in the chain, and the filters between."""

    columns: tuple[str, ...]
    filters: tuple[Any, ...] = ()


class LaterFilter(NamedTuple):
    """A filter that follows in the chain. It tests all rows itself, so here it only leaves out row groups."""

    expression: Any
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Parquet(TableFormat):
    """The arguments of `parse_parquet`."""

    kind: ClassVar[str] = "parse_parquet"
    arguments: ClassVar[tuple[str, ...]] = ("columns", "filter", "path_column", "row_column", "unify_schemas")
    int96_unit: ClassVar[str | None] = None
    """The unit of timestamps of 96 bits; None for nanoseconds."""

    filter: Any = None
    later_filters: tuple[LaterFilter, ...] = ()
    """Filters that follow in the chain; once names and types are fixed, those that fit the columns."""
    later_choice: LaterChoice | None = None
    """What follows in the chain and uses some columns only."""
    used_names: tuple[str, ...] | None = None
    """These columns, once names and types are fixed; the others are not read. None for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filter(self.filter)

    def argument_code(self, name: str) -> str | None:
        if name != "filter":
            return super().argument_code(name)
        return None if self.filter is None else " ".join(str(self.filter).split())

    def identity(self) -> dict[str, Json]:
        return {**super().identity(), "filter": filter_identity(self.filter)}

    @property
    def uses_statistics(self) -> bool:
        """Whether row groups are left out by their statistics."""
        return self.filter is not None or bool(self.later_filters)

    def filters(self) -> Iterator[tuple[Any, dict[str, pa.DataType]]]:
        """The filter and those that follow in the chain, each with its columns. Names and types are fixed."""
        fixed = self.require_fixed_schema(self.kind)
        own = [] if self.filter is None else [LaterFilter(self.filter, fixed.filter_columns)]
        for expression, columns in [*own, *self.later_filters]:
            yield expression, {name: fixed.types[name] for name in columns}

    def with_later_filter(self, expression: Any) -> Parquet:
        """With a further filter that follows in the chain."""
        return replace(self, later_filters=(*self.later_filters, LaterFilter(expression)))

    def with_later_choice(self, choice: LaterChoice) -> Parquet:
        """With a `select` that follows in the chain. Columns that the user named are read in any case."""
        return self if self.columns is not None else replace(self, later_choice=choice)

    def names_to_read(self) -> tuple[str, ...]:
        """The columns of the rows, without path and row number, that something uses. Names and types are fixed."""
        return self.require_fixed_schema(self.kind).names if self.used_names is None else self.used_names

    def row_bytes(self) -> int | None:
        """How many bytes of a file's columns a row takes; None if that is not the same for all rows."""
        import pyarrow as pa

        fixed = self.require_fixed_schema(self.kind)
        names = {*self.names_to_read(), *fixed.filter_columns}
        return row_width(pa.schema([(name, kind) for name, kind in fixed.file_types.items() if name in names]))

    def row_schema(self) -> pa.Schema | None:
        schema = super().row_schema()
        if schema is None or self.used_names is None:
            return schema
        import pyarrow as pa

        names = {*self.used_names, *self.lineage}
        return pa.schema([field for field in schema if field.name in names])

    def fix(self, heads: Iterable[TableHead | None], paths: Iterable[str]) -> Parquet:
        fixed = super().fix(heads, paths)
        if fixed.fixed_schema is None:
            return fixed
        types = fixed.fixed_schema.row_types
        fitting = (later for later in self.later_filters if filter_problem(later.expression, types) is None)
        filters = tuple(LaterFilter(later.expression, (*used_columns(later.expression, types),)) for later in fitting)
        return replace(fixed, later_filters=filters, used_names=self._used_names(types))

    def _used_names(self, types: Mapping[str, pa.DataType]) -> tuple[str, ...] | None:
        """The columns, given their types, that something uses; None for all, also if what follows does not fit them."""
        if self.later_choice is None:
            return None
        used = {*self.later_choice.columns}
        for expression in self.later_choice.filters:
            if filter_problem(expression, types) is not None:
                return None
            used.update(used_columns(expression, types))
        if not used <= {*types, *self.lineage}:
            return None
        # A batch without columns does not know its length.
        return tuple(name for name in types if name in used) or (*types,)[:1]

    def filter_columns(
        self, source: str, types: Mapping[str, pa.DataType], whole: UnifiedSchema, folders: Mapping[str, pa.DataType]
    ) -> Sequence[str]:
        return (
            () if self.filter is None else columns_in_filter(self.filter, types, {**whole.types(), **folders}, source)
        )
