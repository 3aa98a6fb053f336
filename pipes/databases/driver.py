"""The contract of drivers, dialects of SQL, URIs, and the packages of drivers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

from ..core.checks import Package
from ..core.lazy import pa
from ..errors import redacted_url

Key: TypeAlias = int | str | bytes | Decimal
"""A value of the key column. Times and UUIDs are the text by which the database finds the same value again."""


class SqlQuery(NamedTuple):
    """A query whose rows are read in ranges.

    Attributes:
        text: the query, without a semicolon at its end.
        key: the column that identifies and orders the rows; None if the rows have no key and come in one range.
        parameters: the values of the placeholders in `text`.
        schema: names and types of its columns; None before they are known.
    """

    text: str
    key: str | None = None
    parameters: Sequence[object] = ()
    schema: pa.Schema | None = None


class KeyRange(NamedTuple):
    """Rows that follow each other in the order of the key. A range is closed: it has the rows of both its keys.

    Attributes:
        low: the key of its first row.
        high: the key of its last row.
        rows: their number.
    """

    low: Key
    high: Key
    rows: int


class SqlConnection(Protocol):
    """One connection. One thread at a time uses it.

    If it has a method `cancel()`, another thread calls that to end a `read` whose rows nobody needs any more.
    """

    def describe(self, query: SqlQuery) -> pa.Schema:
        """Names and types of the columns of the query."""
        ...

    def ranges(self, query: SqlQuery, count: int | None) -> Sequence[KeyRange]:
        """All rows of the query in ranges of about equal length, in the order of the key.

        The ranges depend on the rows alone: each call gives the same ones.

        Args:
            query: a query with a key.
            count: the number of ranges; None leaves it to the driver.
        """
        ...

    def read(self, query: SqlQuery, after: Key | None, high: Key | None) -> Iterator[pa.RecordBatch]:
        """The rows whose key is greater than `after` and at most `high`, in the order of the key.

        None sets no bound. A query without a key is read whole, in the order in which the database gives it.
        """
        ...

    def close(self) -> None:
        """End the connection and all reading from it."""
        ...


class SqlDriver(Protocol):
    """Opens connections to one kind of database. It is pickled for worker processes, and each opens its own.

    Errors of a driver may be of any class. A `ConnectionError` says that the connection is lost: reading then goes on
    after the last row, over another connection.
    """

    def connect(self, uri: str) -> SqlConnection:
        """A new connection."""
        ...


# Dialects


@dataclass(frozen=True)
class SqlDialect:
    """A kind of database.

    Attributes:
        name: of the database.
        quote: the mark around names.
        begin: begins a transaction in which all queries see the same rows; None if there is none.
        binary: a literal of bytes, given their hexadecimal digits.
        escapes: whether a backslash in a literal begins an escape.
        first_rows: the end of a query that wants only some rows.
        export_snapshot: gives the name of a snapshot, by which other transactions see what this one sees.
        use_snapshot: makes the transaction that has begun one of these.
    """

    name: str
    quote: str = '"'
    begin: str | None = None
    binary: str = "X'{}'"
    escapes: bool = False
    first_rows: str = "LIMIT {}"
    export_snapshot: str | None = None
    use_snapshot: str = ""

    def column(self, name: str) -> str:
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, key: Key) -> str:
        """A key as the database reads it. Quoted text takes the type of the column that it is compared with."""
        if isinstance(key, bytes):
            return self.binary.format(key.hex())
        if not isinstance(key, str):
            return f"{key:f}" if isinstance(key, Decimal) else str(key)
        text = key.replace("'", "''")
        return f"'{text.replace(chr(92), 2 * chr(92)) if self.escapes else text}'"

    def inner(self, query: SqlQuery) -> str:
        """The query in the place of a table. A comment at its end ends with the line."""
        return f"(\n{query.text}\n) AS feedpipe_query"

    def count(self, query: SqlQuery) -> str:
        return f"SELECT count(*) AS row_count FROM {self.inner(query)}"

    def keys(self, query: SqlQuery) -> str:
        """All keys, in order."""
        return f"SELECT {self.key(query)} AS row_key FROM {self.inner(query)} ORDER BY {self.key(query)}"

    def between(self, query: SqlQuery, after: Key | None, high: Key | None) -> str:
        """The rows of a range, in order; without a key, the query as it is."""
        if query.key is None:
            return query.text
        key = self.key(query)
        tests = [f"{key} > {self.literal(after)}"] if after is not None else []
        tests += [f"{key} <= {self.literal(high)}"] if high is not None else []
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"SELECT * FROM {self.inner(query)}{where} ORDER BY {key}"

    def head(self, query: SqlQuery, count: int) -> str:
        """The first rows, in any order."""
        return f"SELECT * FROM {self.inner(query)} {self.first_rows.format(count)}"

    def value(self, query: SqlQuery, name: str) -> str:
        """One value of a column that is not null."""
        column = self.column(name)
        rows = self.first_rows.format(1)
        return f"SELECT {column} FROM {self.inner(query)} WHERE {column} IS NOT NULL {rows}"

    def key(self, query: SqlQuery) -> str:
        assert query.key is not None, "only a query with a key has ranges"
        return self.column(query.key)


ANSI = SqlDialect("the database", first_rows="FETCH FIRST {} ROWS ONLY")
POSTGRESQL = SqlDialect(
    "PostgreSQL",
    begin="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    binary="'\\x{}'",
    export_snapshot="SELECT pg_export_snapshot()",
    use_snapshot="SET TRANSACTION SNAPSHOT '{}'",
)
SQLITE = SqlDialect("SQLite", begin="BEGIN")
DUCKDB = SqlDialect("DuckDB", begin="BEGIN TRANSACTION", binary="unhex('{}')")
MYSQL = SqlDialect("MySQL", quote="`", escapes=True)
FLIGHT = SqlDialect("Flight SQL")

DIALECTS = {
    "postgresql": POSTGRESQL,
    "postgres": POSTGRESQL,
    "sqlite": SQLITE,
    "duckdb": DUCKDB,
    "mysql": MYSQL,
    "mariadb": MYSQL,
    "grpc": FLIGHT,
    "grpc+tcp": FLIGHT,
    "grpc+tls": FLIGHT,
}
"""The dialect of each scheme of a URI."""

# URIs of databases: their parts, and how errors show them without a secret.


_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|credential|auth|sig", re.IGNORECASE)
_MIN_PART = 4  # shorter parts of a password may be words of a message


def scheme_of(uri: str) -> str:
    return uri.partition("://")[0].lower()


def file_of(uri: str) -> str:
    """The path of a database that is a file: all that follows `://`; an absolute one may begin with several slashes."""
    return re.sub("^//+", "/", uri.partition("://")[2])


def sqlite_uri(uri: str) -> str:
    """The address of a SQLite file, as SQLite takes it."""
    path = file_of(uri)
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path!r}")
    return f"file:{path}?mode=ro"


def shown_uri(uri: str) -> str:
    """The URI without user, password and options."""
    return re.split("[?#]", redacted_url(uri), maxsplit=1)[0]


def without_secrets(text: str, uri: str) -> str:
    """A text of a driver, in which no secret of the URI is left."""
    text = text.replace(uri, shown_uri(uri))
    for secret in sorted(set(_secrets(uri)), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def _secrets(uri: str) -> Iterator[str]:
    """The password and the secret options of a URI, and the parts that drivers see of an unencoded password."""
    place = uri.partition("://")[2]
    if "://***@" in shown_uri(uri):
        password = place.rpartition("@")[0].partition(":")[2]
        yield from filter(None, (password, unquote(password)))
        yield from (part for part in re.split("[/@?#:]", password) if len(part) >= _MIN_PART)
    for name, value in parse_qsl(place.partition("?")[2]):
        if value and _SECRET_NAME.search(name):
            yield value


def require(module: str, package: str, purpose: str = "this database is read") -> Any:
    """The module of a driver; an `ArgumentError` if its package is not installed."""
    return Package(module, package, "sql", purpose).load()
