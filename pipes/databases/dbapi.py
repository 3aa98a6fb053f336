"""DB-API 2.0: any connection of Python's own interface, whose rows become Arrow in blocks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

from ..core.lazy import pa
from ..errors import DataError, SourceError
from .connection import TableConnection
from .driver import ANSI, DUCKDB, MYSQL, POSTGRESQL, SQLITE, Key, SqlDialect, SqlQuery, scheme_of, sqlite_uri

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
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "named": ":v{}"}
"""How each style writes a value that is given beside the statement."""


class DbApiConnection(TableConnection):
    """A connection of a user. Its transactions are those that its module begins by itself."""

    def __init__(self, connection: Any) -> None:
        module = type(connection).__module__.partition(".")[0]
        dialect = replace(_MODULES.get(module, ANSI), begin=None, export_snapshot=None)
        super().__init__(dialect)
        self._connection = connection
        self._style = getattr(sys.modules.get(module), "paramstyle", "")

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        return self._batches(statement, parameters, None)

    def ranges(self, query: SqlQuery, count: int | None) -> list[Any]:
        if query.parameters:
            self.dialect = self.dialect.with_parameters(self._style)
        return super().ranges(query, count)

    def read(self, query: SqlQuery, after: Key | None, high: Key | None) -> Iterator[pa.RecordBatch]:
        return self._batches(self.dialect.between(query, after, high), query.parameters, query.schema)

    def begin_writing(self) -> None:
        self._connection.rollback()  # statements before have begun a transaction, as reading does
        if self.dialect.name == SQLITE.name:  # Python's module begins none before a table is created
            self.run(SQLITE.begin_writing)
        elif _commits_by_itself(self._connection):
            raise SourceError(
                "rows and their progress are written in one transaction, so the connection must not be in autocommit "
                "mode"
            )

    def commit_writing(self) -> None:
        self._connection.commit()

    def roll_back(self) -> None:
        self._connection.rollback()

    def create_table(self, name: str, schema: pa.Schema) -> None:
        self.run(table_definition(self.dialect, name, schema))

    def insert(self, name: str, rows: pa.Table) -> None:
        quoted, names = self.dialect.column, rows.schema.names
        marks = ", ".join(_PLACEHOLDERS.get(self._style, "?").format(n) for n in range(1, len(names) + 1))
        statement = f"INSERT INTO {quoted(name)} ({', '.join(map(quoted, names))}) VALUES ({marks})"
        with closing(self._connection.cursor()) as cursor:
            for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
                values = zip(*(self._accepted(column) for column in batch.columns), strict=True)
                if self._style == "named":
                    cursor.executemany(statement, [{f"v{n}": v for n, v in enumerate(row, 1)} for row in values])
                else:
                    cursor.executemany(statement, list(values))

    def cancel(self) -> None:
        for name in ("cancel", "interrupt"):  # DB-API has none; psycopg has the first, SQLite and DuckDB the second
            if callable(cancel := getattr(self._connection, name, None)):
                cancel()

    def close(self) -> None:
        self._connection.close()

    def _accepted(self, column: Any) -> Sequence[Any]:
        """The values of a column as the module takes them."""
        types: Any = pa.types
        if self.dialect.name == SQLITE.name and (types.is_decimal(column.type) or types.is_temporal(column.type)):
            column = column.cast(pa.string())  # SQLite has no types for them
        return cast("Sequence[Any]", column.to_pylist())

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


def _commits_by_itself(connection: Any) -> bool:
    """Return True if the module says that each statement is a transaction of its own."""
    get = getattr(connection, "get_autocommit", None)  # of drivers for MySQL
    return (get() if callable(get) else getattr(connection, "autocommit", False)) is True


class DbApi:
    """Connects to SQLite; other databases need a function that returns their connection."""

    def check(self, uri: str) -> None:
        """Raise nothing: SQLite is part of Python."""

    def connect(self, uri: str) -> DbApiConnection:
        return _open_sqlite(uri, "ro")

    def connect_for_writing(self, uri: str) -> DbApiConnection:
        return _open_sqlite(uri, "rwc")


def _open_sqlite(uri: str, mode: str) -> DbApiConnection:
    import sqlite3

    if scheme_of(uri) != "sqlite":
        raise DataError(
            '`driver="dbapi"` opens URIs of SQLite only; give a function that returns the connection as `uri`'
        )
    # One thread at a time uses it, and a later one closes it.
    return DbApiConnection(sqlite3.connect(sqlite_uri(uri, mode), uri=True, check_same_thread=False))


# Types of the columns of a new table


ANSI_TYPES = {
    "boolean": "BOOLEAN",
    "small": "SMALLINT",
    "integer": "INTEGER",
    "big": "BIGINT",
    "unsigned": "DECIMAL(20)",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "text": "VARCHAR(4000)",
    "binary": "BLOB",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp with zone": "TIMESTAMP WITH TIME ZONE",
}


def table_definition(dialect: SqlDialect, name: str, schema: pa.Schema) -> str:
    """The statement that creates a table.

    Raises:
        DataError: a column has a type that databases do not share.
    """
    columns = [f"{dialect.column(field.name)} {_sql_type(dialect, field.name, field.type)}" for field in schema]
    return f"CREATE TABLE {dialect.column(name)} ({', '.join(columns)})"


def _sql_type(dialect: SqlDialect, column: str, kind: Any) -> str:
    if pa.types.is_decimal(kind):
        return dialect.types.get("decimal", f"DECIMAL({kind.precision}, {kind.scale})")
    name = _type_name(kind)
    if name is None:
        raise DataError(
            f"column {column!r} has values of type {kind}, for which a table is not created over DB-API; create the "
            "table, and write with `if_exists='append'`, or convert the values"
        )
    return dialect.types.get(name, ANSI_TYPES[name])


def _type_name(kind: Any) -> str | None:
    types: Any = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        bits = kind.bit_width + (0 if types.is_signed_integer(kind) else 1)
        return "small" if bits <= 16 else "integer" if bits <= 32 else "big" if bits <= 64 else "unsigned"
    if types.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_date(kind):
        return "date"
    if types.is_time(kind):
        return "time"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with zone"
    return None
