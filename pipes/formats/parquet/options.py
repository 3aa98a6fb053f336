"""`Parquet`: the options of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.cursor import Json
from ..tables.columns import UnifiedSchema
from ..tables.table_format import TableFormat
from .filter import check_filter, columns_in_filter, filter_identity

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, kw_only=True)
class Parquet(TableFormat):
    """The arguments of `parse_parquet`."""

    kind: ClassVar[str] = "parse_parquet"
    arguments: ClassVar[tuple[str, ...]] = ("columns", "filter", "path_column", "row_column", "unify_schemas")

    filter: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filter(self.filter)

    def argument_code(self, name: str) -> str | None:
        if name != "filter":
            return super().argument_code(name)
        return None if self.filter is None else " ".join(str(self.filter).split())

    def identity(self) -> dict[str, Json]:
        return {**super().identity(), "filter": filter_identity(self.filter)}

    def filter_columns(
        self, source: str, types: Mapping[str, pa.DataType], whole: UnifiedSchema, folders: Mapping[str, pa.DataType]
    ) -> Sequence[str]:
        return (
            () if self.filter is None else columns_in_filter(self.filter, types, {**whole.types(), **folders}, source)
        )
