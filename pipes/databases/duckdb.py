"""DuckDB, through its own Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .connection import empty_batch
from .dialect import DUCKDB
from .driver import SqlQuery
from .packages import require
from .table_connection import TableConnection
from .uris import file_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192
_ROWS = "feedpipe_rows"
"""The name of rows in a statement that writes them."""


class DuckDBConnection(TableConnection):
    """A connection to a database file."""

    def __init__(self, connection: Any) -> None:
        super().__init__(DUCKDB)
        self._connection = connection
        connection.execute("SET python_enable_replacements = false")  # the query's tables are no variables of Python

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        relation = self._connection.sql(statement, params=list(parameters) or None)
        if relation is None:  # such as the begin of a transaction
            return
        reader: pa.RecordBatchReader = relation.to_arrow_reader(BATCH_ROWS)
        yield empty_batch(reader.schema)
        yield from reader

    def describe(self, query: SqlQuery) -> pa.Schema:
        return next(self.execute(self.dialect.head(query, 0), query.parameters)).schema

    def create_table(self, name: str, schema: pa.Schema) -> None:
        self._run_with(schema.empty_table(), f"CREATE TABLE {self.dialect.column(name)} AS SELECT * FROM {_ROWS}")

    def insert(self, name: str, rows: pa.Table) -> None:
        self._run_with(rows, f"INSERT INTO {self.dialect.column(name)} BY NAME SELECT * FROM {_ROWS}")

    def cancel(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def _run_with(self, rows: pa.Table, statement: str) -> None:
        self._connection.register(_ROWS, rows)
        self._connection.execute(statement)
        self._connection.unregister(_ROWS)


class DuckDB:
    """Opens database files."""

    def check(self, uri: str) -> None:
        """Raises an `ArgumentError` if the package is not installed."""
        require("duckdb", "duckdb")

    def connect(self, uri: str) -> DuckDBConnection:
        return DuckDBConnection(require("duckdb", "duckdb").connect(file_of(uri), read_only=True))

    def connect_for_writing(self, uri: str) -> DuckDBConnection:
        return DuckDBConnection(require("duckdb", "duckdb").connect(file_of(uri)))
