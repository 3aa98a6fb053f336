"""`SampledTable`: the base of formats whose names and types are inferred from the first rows of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .heads import FlatHead, TableHead
from .table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa


class SampledHead(FlatHead):
    """What the first bytes of a file show.

    Attributes:
        has_rows: whether there is a row among them.
    """

    def __init__(self, name: str, types: Mapping[str, pa.DataType], *, has_rows: bool) -> None:
        import pyarrow as pa

        super().__init__(name, pa.schema(list(types.items())))
        self.has_rows = has_rows


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledTable(TableFormat):
    """The base of CSV, JSON lines and TFRecord."""

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
