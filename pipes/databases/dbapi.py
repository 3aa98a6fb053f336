"""DB-API 2.0: any connection of Python's own interface, whose rows become Arrow in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from ..core.lazy import pa
from ..errors import DataError
from .connection import StatementConnection
from .driver import ANSI, DUCKDB, MYSQL, POSTGRESQL, SQLITE, Key, SqlQuery, scheme_of, sqlite_uri

BATCH_ROWS = 8192
_MODULES = {
    "sqlite3": SQLITE,
    "psycopg": POSTGRESQL,
    "psycopg2": POSTGRESQL,
    "pymysql": MYSQL,
    "MySQLdb": MYSQL,
    "mysql": MYSQL,
    "mariadb": MYSQL,
    "_duckdb": DUCKDB,
    "duckdb": DUCKDB,
}
"""The dialect of each module."""


class DbApiConnection(StatementConnection):
    """A connection of a user. Its transactions are those that its module begins by itself."""

    def __init__(self, connection: Any) -> None:
        module = type(connection).__module__.partition(".")[0]
        dialect = replace(_MODULES.get(module, ANSI), begin=None, export_snapshot=None)
        super().__init__(dialect)
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        return self._batches(statement, parameters, None)

    def read(self, query: SqlQuery, after: Key | None, high: Key | None) -> Iterator[pa.RecordBatch]:
        return self._batches(self.dialect.between(query, after, high), query.parameters, query.schema)

    def cancel(self) -> None:
        for name in ("cancel", "interrupt"):  # DB-API has none; psycopg has the first, SQLite and DuckDB the second
            if callable(cancel := getattr(self._connection, name, None)):
                cancel()

    def close(self) -> None:
        self._connection.close()

    def _batches(
        self, statement: str, parameters: Sequence[object], schema: pa.Schema | None
    ) -> Iterator[pa.RecordBatch]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, *([parameters] if parameters else []))
            if cursor.description is None:
                return
            names = [column[0] for column in cursor.description]
            types = [None] * len(names) if schema is None else schema.types
            is_first = True
            while (rows := cursor.fetchmany(BATCH_ROWS)) or is_first:
                values = zip(*rows, strict=True) if rows else [()] * len(names)
                arrays = [_array(name, column, kind) for name, column, kind in zip(names, values, types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
                is_first = False


def _array(name: str, values: Sequence[Any], kind: pa.DataType | None) -> Any:
    try:
        array: Any = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        expected = "one type" if kind is None else f"type {kind}, as the first rows"
        raise DataError(
            f"the values of column {name!r} must be of {expected}: {' '.join(str(error).split())}; convert the column "
            "in the query, with CAST"
        ) from error
    if kind is None and pa.types.is_decimal(array.type):
        return array.cast(pa.decimal128(38, array.type.scale))  # the precision of some rows says nothing of others
    return array


class DbApi:
    """Connects to SQLite; other databases need a function that returns their connection."""

    def connect(self, uri: str) -> DbApiConnection:
        import sqlite3

        if scheme_of(uri) != "sqlite":
            raise DataError(
                '`driver="dbapi"` opens URIs of SQLite only; give a function that returns the connection as `uri`'
            )
        # One thread at a time uses it, and a later one closes it.
        return DbApiConnection(sqlite3.connect(sqlite_uri(uri), uri=True, check_same_thread=False))
