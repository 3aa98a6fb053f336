"""`TableConnection`: the base of connections that also write tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .connection import StatementConnection

if TYPE_CHECKING:
    import pyarrow as pa


class TableConnection(StatementConnection):
    """Writes rows into tables. What happens in a transaction takes effect at its end, all of it or nothing.

    MySQL ends a transaction before it creates or drops a table.
    """

    def begin_writing(self) -> None:
        """Begins a transaction."""
        self.run(self.dialect.begin_writing)

    def commit_writing(self) -> None:
        """Ends the transaction."""
        self.run("COMMIT")

    def roll_back(self) -> None:
        """Ends the transaction without an effect."""
        self.run("ROLLBACK")

    @abstractmethod
    def create_table(self, name: str, schema: pa.Schema) -> None:
        """Creates a table without rows."""

    @abstractmethod
    def insert(self, name: str, rows: pa.Table) -> None:
        """Adds rows to a table, whose columns are found by their names."""

    def has_table(self, name: str) -> bool:
        statement = self.dialect.find_table.format(self.dialect.literal(name))
        return any(batch.num_rows for batch in self.execute(statement))

    def drop_table(self, name: str) -> None:
        self.run(f"DROP TABLE {self.dialect.column(name)}")

    def column_types(self, name: str) -> Mapping[str, pa.DataType]:
        """The types that values must have to become values of a table; nothing if the database converts them."""
        return {}
