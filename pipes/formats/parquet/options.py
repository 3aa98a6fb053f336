"""`Parquet`: the options of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...core.cursor import Json
from ..tables.columns import UnifiedSchema
from ..tables.expressions import filter_problem, used_columns
from ..tables.heads import TableHead
from ..tables.table_format import TableFormat
from .filter import check_filter, columns_in_filter, filter_identity

if TYPE_CHECKING:
    import pyarrow as pa


class LaterFilter(NamedTuple):
    """A filter that follows in the chain. It tests all rows itself, so here it only leaves out row groups."""

    expression: Any
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Parquet(TableFormat):
    """The arguments of `parse_parquet`."""

    kind: ClassVar[str] = "parse_parquet"
    arguments: ClassVar[tuple[str, ...]] = ("columns", "filter", "path_column", "row_column", "unify_schemas")

    filter: Any = None
    later_filters: tuple[LaterFilter, ...] = ()
    """Filters that follow in the chain; once names and types are fixed, those that fit the columns."""

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

    def with_later_filter(self, expression: Any) -> Parquet:
        """With a further filter that follows in the chain."""
        return replace(self, later_filters=(*self.later_filters, LaterFilter(expression)))

    def fix(self, heads: Iterable[TableHead | None], paths: Iterable[str]) -> Parquet:
        fixed = super().fix(heads, paths)
        if fixed.fixed_schema is None:
            return fixed
        types = {name: fixed.fixed_schema.types[name] for name in fixed.fixed_schema.names}
        fitting = (later for later in self.later_filters if filter_problem(later.expression, types) is None)
        filters = tuple(LaterFilter(later.expression, (*used_columns(later.expression, types),)) for later in fitting)
        return replace(fixed, later_filters=filters)

    def filter_columns(
        self, source: str, types: Mapping[str, pa.DataType], whole: UnifiedSchema, folders: Mapping[str, pa.DataType]
    ) -> Sequence[str]:
        return (
            () if self.filter is None else columns_in_filter(self.filter, types, {**whole.types(), **folders}, source)
        )
