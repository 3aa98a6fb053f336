"""ADBC: PostgreSQL, SQLite and Flight SQL, from the wire as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock, current_thread, main_thread
from typing import Any, TypeVar, cast

from ..core.lazy import pa
from .connection import StatementConnection, empty_batch
from .driver import DIALECTS, FLIGHT, POSTGRESQL, SQLITE, SqlDialect, SqlQuery, require, scheme_of, sqlite_uri

T = TypeVar("T")

BATCH_BYTES = 2**20
"""PostgreSQL's rows come in batches of this size; without it, all of them come as one."""
TYPED_ROWS = 2**17
"""SQLite's types are those of this many rows: of a whole range, unless the user makes longer ones."""

_OPTIONS = {
    POSTGRESQL: {"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)},
    SQLITE: {"adbc.sqlite.query.batch_rows": str(TYPED_ROWS)},
    FLIGHT: dict[str, str](),
}
_NOTICE_LOST_CLIENT = (
    "SELECT set_config('client_connection_check_interval', '10s', false) "
    "WHERE current_setting('client_connection_check_interval', true) = '0' AND version() LIKE '%linux%'"
)
"""Makes PostgreSQL, from version 14 on, end a statement whose reader was killed; else it looks when it sends rows.

Other systems than Linux need not know how.
"""
_MODULES = {POSTGRESQL: "adbc_driver_postgresql", SQLITE: "adbc_driver_sqlite", FLIGHT: "adbc_driver_flightsql"}


class AdbcConnection(StatementConnection):
    """A connection of an ADBC driver.

    It uses the driver manager itself: the DB-API interface above it imports pandas and polars if they are installed,
    which takes each worker most of a second.
    """

    def __init__(self, dialect: SqlDialect, connection: Any, close: Callable[[], None], manager: Any) -> None:
        super().__init__(dialect)
        self._connection = connection
        self._closing = ExitStack()
        self._closing.callback(close)
        self._manager = manager

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        with self._statement(statement, parameters) as prepared:
            handle, _ = interruptible(prepared.execute_query, prepared.cancel)
            with pa.RecordBatchReader.from_stream(handle) as reader:
                if (first := next(reader, None)) is None:
                    yield empty_batch(reader.schema)
                else:
                    yield first
                    del first
                    yield from reader

    def describe(self, query: SqlQuery) -> pa.Schema:
        if self.dialect is SQLITE:
            return super().describe(query)
        with self._statement(self.dialect.head(query, 0), query.parameters) as prepared:
            return pa.schema(interruptible(prepared.execute_schema, prepared.cancel))

    def cancel(self) -> None:
        self._connection.cancel()

    def close(self) -> None:
        self._closing.close()

    @contextmanager
    def _statement(self, text: str, parameters: Sequence[object]) -> Generator[Any]:
        """A statement, which is closed at the end: the driver closes no connection that still has one."""
        with self._manager.AdbcStatement(self._connection) as statement:
            statement.set_options(**_OPTIONS[self.dialect])
            statement.set_sql_query(text)
            if parameters:
                statement.prepare()
                columns: list[Any] = [pa.array([cast("Any", value)]) for value in parameters]
                statement.bind(pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(len(columns))]))
            yield statement


class Adbc:
    """Connects with the ADBC driver of a scheme.

    The driver for PostgreSQL loads all types of the server when it opens a database, which takes as long as ten
    connections. So connections share a database, but only those of one pipe: types that are new on the server are
    unknown to it. A database allows one call at a time, and connections begin and end with such calls.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, tuple[Any, int]] = {}  # the number is that of the connections

    def __reduce__(self) -> tuple[object, ...]:
        return Adbc, ()

    def connect(self, uri: str) -> AdbcConnection:
        dialect = DIALECTS[scheme_of(uri)]
        driver = driver_module(dialect)
        manager = require("adbc_driver_manager", "adbc-driver-manager")
        place = sqlite_uri(uri) if dialect is SQLITE else uri
        with self._lock:
            database, count = self._open.get(place) or (driver.connect(place), 0)
            try:
                opened = manager.AdbcConnection(database)
                count += 1
            finally:
                self._keep(place, database, count)
        connection = AdbcConnection(dialect, opened, partial(self._close, place, opened), manager)
        if dialect is POSTGRESQL:
            try:
                connection.run(_NOTICE_LOST_CLIENT)
            except BaseException:
                connection.close()
                raise
        return connection

    def _close(self, place: str, connection: Any) -> None:
        with self._lock:
            connection.close()
            database, count = self._open[place]
            self._keep(place, database, count - 1)

    def _keep(self, place: str, database: Any, count: int) -> None:
        if count:
            self._open[place] = database, count
        else:
            self._open.pop(place, None)
            database.close()


def driver_module(dialect: SqlDialect) -> Any:
    module = _MODULES[dialect]
    purpose = 'without `driver="dbapi"`, SQLite is read' if dialect is SQLITE else "this database is read"
    return require(module, module.replace("_", "-"), purpose)


def interruptible(function: Callable[[], T], cancel: Callable[[], object]) -> T:
    """Return the result of a function that blocks this thread. In the main thread, Ctrl-C cancels it."""
    if current_thread() is not main_thread():
        return function()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(function)
        try:
            return running.result()
        except BaseException:
            if not running.done():
                cancel()
            raise
