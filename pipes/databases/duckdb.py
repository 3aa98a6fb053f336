"""DuckDB and connectorx, which give Arrow of their own."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ..core.lazy import pa
from ..errors import SourceError
from .connection import StatementConnection, empty_batch
from .driver import ANSI, DIALECTS, DUCKDB, SqlDialect, SqlQuery, file_of, require, scheme_of

BATCH_ROWS = 8192


class DuckDBConnection(StatementConnection):
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

    def cancel(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


class DuckDB:
    """Opens database files."""

    def __init__(self) -> None:
        self._duckdb = require("duckdb", "duckdb")

    def connect(self, uri: str) -> DuckDBConnection:
        return DuckDBConnection(self._duckdb.connect(file_of(uri), read_only=True))


# connectorx, for MySQL and MariaDB


CONNECT_SECONDS = 10.0


class ConnectorxConnection(StatementConnection):
    """Runs each statement over a connection of its own, with the whole result in memory."""

    def __init__(self, dialect: SqlDialect, uri: str) -> None:
        super().__init__(replace(dialect, begin=None, export_snapshot=None))
        self._uri = uri
        self._session: list[str] = []

    def run(self, statement: str) -> None:
        """Run a statement at the beginning of each later connection."""
        self._session.append(statement)

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        if parameters:
            raise SourceError("connectorx takes no `parameters`; write their values into the query")
        connectorx = require("connectorx", "connectorx")
        table: pa.Table = connectorx.read_sql(
            self._uri, statement, return_type="arrow", pre_execution_query=self._session or None
        )
        yield empty_batch(table.schema)
        yield from table.to_batches(max_chunksize=BATCH_ROWS)

    def close(self) -> None:
        return


class Connectorx:
    """Connects with connectorx."""

    def __init__(self) -> None:
        require("connectorx", "connectorx")

    def connect(self, uri: str) -> ConnectorxConnection:
        place = urlsplit(uri)
        if place.hostname is not None and place.port is not None:  # connectorx itself tries for half a minute
            socket.create_connection((place.hostname, place.port), CONNECT_SECONDS).close()
        return ConnectorxConnection(DIALECTS.get(scheme_of(uri), ANSI), uri)
