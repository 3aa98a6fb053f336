"""`Database`: the addresses of a database, connections to it, their errors, and their snapshots."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar, cast

from ..core.code import value_code
from ..core.ending import Ending
from ..core.lazy import pa
from ..errors import ArgumentError, ArgumentTypeError, FeedpipeError, SourceError, text_of
from .adbc import Adbc, driver_module
from .connection import StatementConnection
from .dbapi import DbApi, DbApiConnection
from .driver import (
    DIALECTS,
    DUCKDB,
    MYSQL,
    Key,
    KeyRange,
    SqlConnection,
    SqlDialect,
    SqlDriver,
    SqlQuery,
    scheme_of,
    shown_uri,
    without_secrets,
)
from .duckdb import Connectorx, DuckDB

Address: TypeAlias = str | Callable[[], object]
"""A URI, or a function that returns a URI or a DB-API connection."""
T = TypeVar("T")

_OF_DIALECT: dict[SqlDialect, type[DuckDB | Connectorx]] = {DUCKDB: DuckDB, MYSQL: Connectorx}
"""The drivers of databases that ADBC does not read."""
DRIVERS = ("adbc", "connectorx", "dbapi")

_LOST = re.compile(
    "connection (was |is |to .*)?(refused|reset|closed|lost|terminated|aborted|timed out)|closed the connection|"
    "lost connection|terminating connection|shutting down|starting up|failed to connect|could not connect|"
    "not connected|gone away|"
    "broken pipe|no connection to the server|end of file|unexpected eof|early eof|packet out of order|"
    "not yet prepared node|server shutdown",
    re.IGNORECASE,
)
"""The messages of drivers about a lost connection: few drivers have a class of errors for it."""


class LostConnectionError(SourceError):
    """The database cannot be reached, or the connection has ended before all rows were read."""


@dataclass(frozen=True)
class Database:
    """The database of a query.

    Attributes:
        addresses: each holds the same rows.
        session: statements that each connection runs first.
        driver: the name of a driver, or one of the user; None chooses by the scheme of the address.
        adbc: the driver whose connections in this process share their knowledge of the server.
    """

    addresses: tuple[Address, ...] = field(repr=False)
    session: tuple[str, ...] = field(default=(), repr=False)
    driver: str | SqlDriver | None = None
    adbc: Adbc = field(default_factory=Adbc, repr=False, compare=False)

    @staticmethod
    def of(uri: object, session: object, driver: object) -> Database:
        """The database that the arguments of a call name."""
        addresses = tuple(cast("Sequence[Address]", uri)) if isinstance(uri, (list, tuple)) else (cast("Address", uri),)
        for address in addresses:
            _check_address(address)
        if not addresses:
            raise ArgumentError("`uri` must have at least one URI but got: []")
        if isinstance(session, str) or not isinstance(session, Sequence):
            raise ArgumentTypeError("`session` must be a list of statements")
        if not all(isinstance(statement, str) for statement in session):
            raise ArgumentTypeError("`session` must be a list of statements, each a string")
        if not (driver is None or driver in DRIVERS or hasattr(driver, "connect")):
            listed = ", ".join(map(repr, DRIVERS))
            raise ArgumentError(f"`driver` must be None, {listed} or a `SqlDriver` but got: {value_code(driver)}")
        is_custom = driver is not None and not isinstance(driver, str)
        if session and is_custom:
            raise ArgumentError("`session` must be empty with a `driver` of your own; its `connect` can run statements")
        database = Database(addresses, tuple(session), cast("str | SqlDriver | None", driver))
        for address in addresses:
            if isinstance(address, str) and not is_custom:
                database.driver_of(address)
        return database

    def __repr__(self) -> str:
        shown = [self.shown(number) for number in range(len(self.addresses))]
        return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"

    def shown(self, number: int) -> str:
        """An address without its secrets, as code."""
        address = self.addresses[number]
        return repr(shown_uri(address)) if isinstance(address, str) else value_code(address)

    def driver_of(self, uri: str) -> SqlDriver:
        """The driver of a URI, whose package is installed."""
        if self.driver is not None and not isinstance(self.driver, str):
            return self.driver
        if self.driver == "connectorx":
            return Connectorx()
        if self.driver == "dbapi":
            return DbApi()
        scheme = scheme_of(uri)
        driver_of_scheme = _OF_DIALECT.get(DIALECTS[scheme], Adbc) if scheme in DIALECTS else None
        if driver_of_scheme is None or (self.driver == "adbc" and driver_of_scheme is Connectorx):
            listed = ", ".join(f"{name}://" for name in DIALECTS)
            raise ArgumentError(
                f"`uri` must begin with one of {listed} but begins with: {scheme}://; give a function that returns "
                "a DB-API connection, or a `driver` of your own"
            )
        if driver_of_scheme is not Adbc:
            return driver_of_scheme()
        driver_module(DIALECTS[scheme])
        return self.adbc

    def connect(self, number: int) -> Connected:
        """A new connection to an address, which has run the statements of `session`.

        A `LostConnectionError` says that another address may serve.
        """
        address = self.addresses[number]
        shown = self.shown(number)
        value: object = address
        with _errors(shown, ""):
            value = address if isinstance(address, str) else address()
        uri = value if isinstance(value, str) else ""
        shown = repr(shown_uri(uri)) if uri else shown
        with _errors(shown, uri):
            connection = self.driver_of(uri).connect(uri) if uri else DbApiConnection(value)
        connected = Connected(connection, shown, uri)
        try:
            for statement in self.session:
                connected.call(partial(cast("StatementConnection", connection).run, statement))
        except BaseException:
            connected.close()
            raise
        return connected

    def connect_any(self) -> Connected:
        """A new connection to the first address that has one."""
        last = len(self.addresses) - 1
        for number in range(last):
            with suppress(LostConnectionError):
                return self.connect(number)
        return self.connect(last)


class Connected:
    """A connection whose errors are of this package, and show no secret. A forked process leaves it alone."""

    def __init__(self, connection: SqlConnection, shown: str, uri: str) -> None:
        self.connection = connection
        self.shown = shown
        self._uri = uri
        self._process = os.getpid()

    @property
    def statements(self) -> StatementConnection | None:
        """The connection, if it runs statements: those of a user's driver need not."""
        return self.connection if isinstance(self.connection, StatementConnection) else None

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of a function; its errors become errors of this package."""
        with _errors(self.shown, self._uri):
            return function()

    def begin(self, snapshot: str | None) -> None:
        """Begin a transaction in which all queries see the same rows, if there are such: those of a snapshot."""
        if (statements := self.statements) is not None:
            self.call(statements.begin if snapshot is None else partial(statements.use_snapshot, snapshot))

    def plan(
        self, query: SqlQuery, count: int | None, check: Callable[[pa.Schema], None]
    ) -> tuple[pa.Schema, Sequence[KeyRange] | None]:
        """The columns of a query, which `check` may refuse, and its ranges if it has a key."""
        schema = self.call(lambda: self.connection.describe(query))
        check(schema)
        query = query._replace(schema=schema)
        return schema, None if query.key is None else self.call(lambda: self.connection.ranges(query, count))

    def read(self, query: SqlQuery, after: Key | None, high: Key | None) -> Iterator[pa.RecordBatch]:
        """The rows of a range; see `SqlConnection.read`."""
        batches = self.call(lambda: iter(self.connection.read(query, after, high)))
        try:
            while (batch := self.call(lambda: next(batches, None))) is not None:
                if batch.num_rows:
                    yield batch
        finally:
            if isinstance(batches, Generator):
                with suppress(Exception):  # the connection may be lost
                    batches.close()

    def cancel(self) -> None:
        """End the reading of another thread, if the driver can do that."""
        with suppress(Exception):
            if callable(cancel := getattr(self.connection, "cancel", None)):
                cancel()

    def close(self) -> None:
        if os.getpid() == self._process:  # else the server would end the connection of the process that was forked
            with suppress(Exception):
                self.connection.close()


@contextmanager
def _errors(shown: str, uri: str) -> Generator[None, None, None]:
    try:
        yield
    except FeedpipeError:
        raise
    except Exception as error:
        text = text_of(error)
        clean = without_secrets(text, uri) if uri else text
        # Statements are ours, and long.
        short = re.sub(r"(Failed to execute query) '.*'(?=: (?:ERROR|FATAL|PANIC): )", r"\1", clean, flags=re.DOTALL)
        message = " ".join(short.partition("Query was:")[0].split()).strip() or type(error).__name__
        cause = error if clean == text else None  # its text would be printed too
        if isinstance(error, (ConnectionError, TimeoutError)) or _LOST.search(message):
            raise LostConnectionError(f"the connection to {shown} has failed: {message}") from cause
        raise SourceError(f"{shown} cannot read the query: {message}") from cause


def _check_address(address: object) -> None:
    if isinstance(address, str):
        if "://" not in address:
            examples = "'postgresql://host/database' or 'sqlite://file.db'"
            raise ArgumentError(f"`uri` must be a URI such as {examples}")
        return
    if not callable(address):
        raise ArgumentTypeError(
            f"`uri` must be a URI, a list of URIs, or a function that returns a URI or a DB-API connection but got "
            f"one of type {type(address).__name__}"
        )


# Snapshots


class Snapshot:
    """A snapshot that a connection has exported. It lives as long as this object; a pickle has its name only."""

    def __init__(self, name: str, connected: Connected | None = None) -> None:
        self.name = name
        if connected is not None:
            Ending(self, connected.close)

    def __reduce__(self) -> tuple[object, ...]:
        return Snapshot, (self.name,)


def exported_snapshot(connected: Connected) -> Snapshot | None:
    """The snapshot of a connection, which the snapshot then owns; None if the database exports none."""
    statements = connected.statements
    if statements is None or statements.dialect.export_snapshot is None:
        return None
    connected.begin(None)
    name = connected.call(statements.export_snapshot)
    return None if name is None else Snapshot(name, connected)
