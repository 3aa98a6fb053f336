"""DuckDB, through its own Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .connection import StatementConnection
from .dialect import DUCKDB
from .driver import SqlQuery
from .packages import require
from .uris import file_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192


class DuckDBConnection(StatementConnection):
    """A connection that only reads."""

    def __init__(self, connection: Any) -> None:
        super().__init__(DUCKDB)
        self._connection = connection
        connection.execute("SET python_enable_replacements = false")  # the query's tables are no variables of Python

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        relation = self._connection.sql(statement, params=list(parameters) or None)
        if relation is None:  # such as the begin of a transaction
            return
        reader: pa.RecordBatchReader = relation.to_arrow_reader(BATCH_ROWS)
        yield pa.RecordBatch.from_pylist([], schema=reader.schema)
        yield from reader

    def describe(self, query: SqlQuery) -> pa.Schema:
        return next(self.execute(self.dialect.head(query, 0), query.parameters)).schema

    def close(self) -> None:
        self._connection.close()


class DuckDB:
    """Opens database files."""

    def check(self, uri: str) -> None:
        """Raises an `ArgumentError` if the package is not installed."""
        require("duckdb", "duckdb")

    def connect(self, uri: str) -> DuckDBConnection:
        return DuckDBConnection(require("duckdb", "duckdb").connect(file_of(uri), read_only=True))
