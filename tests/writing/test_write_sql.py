"""`write_sql` with databases that need no server: DuckDB, and SQLite through Python's own interface."""

from __future__ import annotations

import datetime
import decimal
import sqlite3
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, SourceError

from .sql_store import Store, square, squares


def test_rows_come_back(store: Store) -> None:
    assert store.write(squares(2500), rows_per_transaction=700) == 2500
    assert store.rows() == list(map(square, range(2500)))
    (progress,) = store.progress()
    assert (progress["table_name"], progress["written_rows"], progress["is_finished"]) == ("squares", 2500, 1)


def test_transactions_have_at_most_so_many_rows(store: Store) -> None:
    sizes: list[int] = []
    original = store.connection_type.insert

    def insert(self: Any, name: str, rows: pa.Table) -> None:
        sizes.append(len(rows))
        original(self, name, rows)

    for limit in (1, 7, 1024, 3000, 10_000):
        with mock.patch.object(store.connection_type, "insert", insert):
            store.write(squares(2500 if limit > 100 else 10), if_exists="replace", rows_per_transaction=limit)
        assert max(sizes) <= limit and sum(sizes) == len(store.rows())
        sizes.clear()


def test_columns_stay_columns(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": range(3000), "text": [str(n) if n % 3 else None for n in range(3000)]})
    pq.write_table(table, tmp_path / "a.parquet")
    with monkeypatch.context() as context:
        context.setattr("feedpipe.core.rows.Rows.__iter__", None)
        store.write(fp.read_parquet(tmp_path / "a.parquet"))
    assert store.rows() == table.to_pylist()


def test_types(store: Store) -> None:
    row = {
        "id": 1,
        "amount": decimal.Decimal("1.50"),
        "day": datetime.date(2024, 1, 2),
        "at": datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        "x": np.float32(0.5),
        "yes": True,
        "bytes": b"\x00\xff",
        "text": "ä'\\",
    }
    store.write(fp.from_sequence([row, dict.fromkeys(row) | {"id": 2}]))
    written, nulls = store.rows()
    assert nulls == dict.fromkeys(row) | {"id": 2}
    if store.driver == "dbapi":
        row |= {"amount": "1.50", "day": "2024-01-02", "at": "2024-01-02 03:04:05.000006"}  # SQLite has no such types
    assert written == row


def test_workers(sqlite: Store) -> None:
    sqlite.write(squares(3000), workers=2, rows_per_transaction=1000)
    assert sqlite.rows() == list(map(square, range(3000)))


def test_a_table_that_is_there(store: Store) -> None:
    store.write(squares(10))
    assert store.write(squares(10)) == 10  # it has been written
    with pytest.raises(ArgumentError, match="'squares' exists, with 10 rows of another pipe: .*replace.*drops it"):
        store.write(squares(11))
    assert store.write(squares(20).skip(10), if_exists="append") == 10
    assert store.rows() == list(map(square, range(20)))
    assert store.write(squares(5), if_exists="replace") == 5
    assert store.rows() == list(map(square, range(5)))


def test_other_columns_of_a_table_get_their_defaults(store: Store) -> None:
    store.run("CREATE TABLE squares (square INTEGER, note TEXT DEFAULT 'none', id INTEGER)")
    with pytest.raises(ArgumentError, match="'squares' exists: "):
        store.write(squares(2))
    store.write(squares(2), if_exists="append")
    assert store.rows() == [{"square": n * n, "note": "none", "id": n} for n in range(2)]


def test_names_that_need_quotes(store: Store) -> None:
    store.write(fp.from_sequence([{'a "b"': 1, "select": 2}]), "order by 'x'")
    assert store.rows("\"order by 'x'\"", "1") == [{'a "b"': 1, "select": 2}]


def test_a_pipe_without_rows(store: Store) -> None:
    with pytest.raises(DataError, match="the pipe gives no row, so its columns are not known; `schema=` names them"):
        store.write(squares(0))
    assert store.write(squares(0), schema={"id": "int64"}) == 0
    assert store.rows() == []
    assert store.write(squares(0), if_exists="append") == 0
    assert store.write(squares(0), if_exists="replace", schema={"id": "int64"}) == 0


class TestBadInput:
    def test_arguments(self, sqlite: Store) -> None:
        with pytest.raises(ArgumentTypeError, match="`pipe` must be a Pipe"):
            fp.write_sql([{"id": 1}], "t", sqlite.uri)  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="`table` must be the name of a table but got: 3"):
            sqlite.write(squares(1), 3)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="`table` must be the name of a table but got: ''"):
            sqlite.write(squares(1), "")
        with pytest.raises(ArgumentError, match="`if_exists` must be one of"):
            sqlite.write(squares(1), if_exists="skip")
        with pytest.raises(ArgumentError, match="`rows_per_transaction` must be >= 1"):
            sqlite.write(squares(1), rows_per_transaction=0)

    @pytest.mark.parametrize("uri", ["mysql://ann:secret@host/shop", "grpc://ann:secret@host:1"])
    def test_a_driver_that_only_reads(self, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("adbc", "duckdb"):
            monkeypatch.setattr(f"feedpipe.databases.{module}.require", lambda *_: None)
        with pytest.raises(ArgumentError, match="sqlite:// or duckdb:// to write, or a function.*DB-API") as caught:
            fp.write_sql(squares(1), "t", uri)
        assert "secret" not in str(caught.value)

    def test_a_column_of_none(self, store: Store) -> None:
        with pytest.raises(DataError, match="'x' has only None in the first rows.*`schema=` gives it one"):
            store.write(fp.from_sequence([{"id": 1, "x": None}]))
        store.write(fp.from_sequence([{"id": 1, "x": None}]), schema={"x": "string"})
        assert store.rows() == [{"id": 1, "x": None}]

    def test_arrays_of_several_axes(self, store: Store) -> None:
        with pytest.raises(DataError, match=r"'x' has arrays of shape \(2, 3\).*`.map` can flatten them"):
            store.write(fp.from_sequence([{"x": np.zeros((2, 3))}]))

    def test_lists_in_sqlite(self, sqlite: Store) -> None:
        with pytest.raises(DataError, match="'x' has values of type list<item: int64>.*if_exists='append'"):
            sqlite.write(fp.from_sequence([{"x": [1, 2]}]))

    def test_rows_that_are_no_dicts(self, sqlite: Store) -> None:
        with pytest.raises(DataError, match="row 3 is of type int"):
            sqlite.write(fp.from_sequence([{"x": 1}, {"x": 1}, 2]))

    def test_rows_that_the_database_refuses(self, store: Store) -> None:
        store.run("CREATE TABLE squares (id INTEGER PRIMARY KEY, square INTEGER)")
        with pytest.raises(SourceError, match=r"cannot write the table 'squares': .*(?i:constraint)"):
            store.write(squares(5).concat(squares(1)), if_exists="append", rows_per_transaction=4)
        assert store.rows() == list(map(square, range(4)))

    def test_a_connection_in_autocommit_mode(self) -> None:
        connection = mock.MagicMock(autocommit=True)
        connection.get_autocommit = None
        connection.cursor.return_value.description = None
        with pytest.raises(SourceError, match="must not be in autocommit mode"):
            fp.write_sql(squares(1), "t", lambda: connection)


def test_a_connection_of_the_user(tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "a.db", check_same_thread=False)

    assert fp.write_sql(squares(10), "squares", connect) == 10
    assert [row["square"] for row in fp.read_sql("SELECT * FROM squares", connect, partition_on="id")][3] == 9
