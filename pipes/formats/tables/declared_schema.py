"""`DeclaredSchema`: names and types that the log of a table declares for all of its files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ...errors import DataError
from .arrow_types import widens_to
from .fixed_schema import FixedSchema
from .heads import TableHead


@dataclass(frozen=True)
class DeclaredSchema(FixedSchema):
    """A file may lack columns, which are null there, and have others, which are not read.

    Writers store a declared type in several ways, such as timestamps in 96 bits. So types need not be the same, and
    Arrow checks the values when it casts them.
    """

    @staticmethod
    def of(schema: FixedSchema) -> DeclaredSchema:
        values: dict[str, Any] = {field.name: getattr(schema, field.name) for field in fields(schema)}
        values["read_columns"] = [*schema.file_types]
        return DeclaredSchema(**values)

    def columns_in(self, head: TableHead) -> list[str]:
        stored = head.schema_of(head.existing(self.read_columns or ()))
        for field in stored:
            declared = self.file_types[field.name]
            if not _stores(field.type, declared):
                raise DataError(
                    f"{head.name}, column {field.name!r}: its type is {field.type}, and {declared} in {self.source}, "
                    "which cannot hold all such values; leave the column out with `columns=`"
                )
        return stored.names


def _stores(kind: Any, declared: Any) -> bool:
    """Whether a column of type `kind` may hold values of the declared type, which a cast checks one by one."""
    import pyarrow as pa

    types: Any = pa.types
    families = (types.is_integer, types.is_timestamp, types.is_decimal, types.is_nested)
    return widens_to(kind, declared) or any(is_kind(kind) and is_kind(declared) for is_kind in families)
