"""connectorx: MySQL and MariaDB as Arrow, and other databases that it knows."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import SourceError
from .connection import StatementConnection, empty_batch
from .dialect import ANSI, DIALECTS, SqlDialect
from .packages import require
from .uris import scheme_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192
CONNECT_SECONDS = 10.0


class ConnectorxConnection(StatementConnection):
    """Runs each statement over a connection of its own, and has its whole result in memory."""

    def __init__(self, dialect: SqlDialect, uri: str) -> None:
        super().__init__(replace(dialect, begin=None, export_snapshot=None))
        self._uri = uri
        self._session: list[str] = []

    def run(self, statement: str) -> None:
        """Runs a statement at the beginning of each later connection."""
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

    def check(self, uri: str) -> None:
        """Raises an `ArgumentError` if the package is not installed."""
        require("connectorx", "connectorx")

    def connect(self, uri: str) -> ConnectorxConnection:
        place = urlsplit(uri)
        if place.hostname is not None and place.port is not None:  # connectorx itself tries for half a minute
            socket.create_connection((place.hostname, place.port), CONNECT_SECONDS).close()
        return ConnectorxConnection(DIALECTS.get(scheme_of(uri), ANSI), uri)
