"""`DeclaredParquet`: the options of Parquet files of a table whose log declares names and types of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..tables.declared_schema import DeclaredSchema
from ..tables.heads import TableHead
from .filter import ColumnBounds, may_match
from .options import Parquet

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, kw_only=True)
class DeclaredParquet(Parquet):
    """The columns are those of the log, in its order."""

    arguments: ClassVar[tuple[str, ...]] = ("columns", "filter")
    int96_unit: ClassVar[str | None] = "us"  # nanoseconds reach no further than 2262

    def fix(self, heads: Iterable[TableHead | None], paths: Iterable[str]) -> DeclaredParquet:
        fixed = super().fix(heads, paths)
        schema = fixed.require_fixed_schema(self.kind)
        return replace(fixed, fixed_schema=DeclaredSchema.of(schema))  # type: ignore[return-value]

    def folder_types(self, first: str, paths: Iterable[str], taken: Sequence[str]) -> dict[str, pa.DataType]:
        return {}

    def may_match(self, values: Mapping[str, Any], bounds: Mapping[str, ColumnBounds]) -> bool:
        """Whether a file may have rows for all filters, as far as the values and bounds tell that the log has of it."""
        return all(
            may_match(expression, types, values, {name: bound for name, bound in bounds.items() if name in types})
            for expression, types in self.filters()
        )
