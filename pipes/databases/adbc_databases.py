"""`AdbcDatabases`: the databases of ADBC that connections share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

PATIENCE = 0.05
"""Seconds that a connection waits for others: longer than a server nearby takes, shorter than a second database."""


class AdbcDatabases:
    """Open databases, each as long as it has connections.

    The driver for PostgreSQL loads all types of the server when it opens a database, which takes as long as ten
    connections. A database allows one call at a time, and connections begin and end with such calls. Types that are
    new on the server are unknown to an open database, so only the connections of one pipe share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, tuple[Any, int]] = {}  # the number is that of the connections

    def __reduce__(self) -> tuple[object, ...]:
        return AdbcDatabases, ()

    def connect(
        self, uri: str, open_database: Callable[[str], Any], open_connection: Callable[[Any], Any]
    ) -> tuple[Any, Callable[[], None]]:
        """A new connection, and the function that closes it."""
        if not self._lock.acquire(timeout=PATIENCE):
            return AdbcDatabases().connect(uri, open_database, open_connection)
        try:
            database, count = self._open[uri] if uri in self._open else (open_database(uri), 0)
            try:
                connection = open_connection(database)
                count += 1
            finally:
                self._keep(uri, database, count)
        finally:
            self._lock.release()
        return connection, partial(self._close, uri, connection)

    def _close(self, uri: str, connection: Any) -> None:
        with self._lock:
            connection.close()
            database, count = self._open[uri]
            self._keep(uri, database, count - 1)

    def _keep(self, uri: str, database: Any, count: int) -> None:
        if count:
            self._open[uri] = database, count
        else:
            self._open.pop(uri, None)
            database.close()
