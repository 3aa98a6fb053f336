"""Database files of DuckDB and SQLite with a table of points, and pipes that read them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import feedpipe as fp

Row = dict[str, Any]


def rows(count: int) -> list[Row]:
    return [{"id": 3 * n, "x": n / 2, "name": f"n{n}" if n % 3 else None} for n in range(count)]


def write_sqlite(path: Path, some: list[Row], key: str = "id INTEGER PRIMARY KEY") -> str:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE points ({key}, x REAL, name TEXT)")
        database.executemany("INSERT INTO points VALUES (:id, :x, :name)", some)
    return f"sqlite://{path}"


def read_sqlite(uri: str, **options: Any) -> fp.Pipe[Any]:
    return fp.read_sql("SELECT * FROM points", uri, **{"partition_on": "id", "driver": "dbapi"} | options)


def write_duckdb(path: Path, some: list[Row]) -> str:
    table = pa.Table.from_pylist(some, pa.schema([("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())]))
    with closing(duckdb.connect(path)) as database:
        database.register("given", table)
        database.execute("CREATE TABLE points AS SELECT * FROM given ORDER BY random()")
    return f"duckdb://{path}"


def read_duckdb(uri: str, **options: Any) -> fp.Pipe[Any]:
    return fp.read_sql("SELECT * FROM points", uri, **{"partition_on": "id"} | options)
