"""Tables of squares in database files that need no server."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import duckdb

import feedpipe as fp

from ..support.databases import DbApiConnection, DuckDBConnection


def square(number: int) -> dict[str, Any]:
    return {"id": number, "square": number * number}


def squares(count: int) -> fp.Pipe[Any]:
    return fp.from_sequence(range(count)).map(square)


class Store:
    """A database file, and how to write to it and to look into it."""

    def __init__(self, uri: str, driver: Any) -> None:
        self.uri, self.driver = uri, driver

    def write(self, pipe: fp.Pipe[Any], table: str = "squares", **options: Any) -> int:
        return fp.write_sql(pipe, table, self.uri, **{"driver": self.driver} | options)

    def rows(self, table: str = "squares", order: str = "id") -> list[Any]:
        return list(fp.read_sql(f"SELECT * FROM {table} ORDER BY {order}", self.uri, driver=self.driver))

    def progress(self) -> list[dict[str, Any]]:
        return self.rows("feedpipe_writes", "table_name")

    def run(self, *statements: str) -> None:
        path = self.uri.partition("://")[2]
        connect: Any = duckdb.connect if self.uri.startswith("duckdb") else sqlite3.connect
        with closing(connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    @property
    def connection_type(self) -> type[Any]:
        return DbApiConnection if self.driver == "dbapi" else DuckDBConnection
