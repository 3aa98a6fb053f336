"""Heads: what files say about their columns before their rows are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class TableHead(Protocol):
    """Names and types of the columns of one file."""

    name: str
    """The name of the file, for errors."""
    schema: pa.Schema

    def existing(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that the file has."""
        ...

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """Names and types of these columns as they are read; None for all."""
        ...


class FlatHead:
    """The head of a file whose columns are read as a whole, structs included."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self.names: list[str] = schema.names

    def existing(self, names: Iterable[str]) -> list[str]:
        existing = set(self.names)
        return [name for name in names if name in existing]

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        import pyarrow as pa

        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
