"""`write_sql` with databases that need no server: DuckDB, and SQLite through Python's own interface."""

from __future__ import annotations

import datetime
import decimal
import itertools
import os
import signal
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.databases.database import LostConnectionError
from feedpipe.databases.dbapi import DbApiConnection
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, RowError, SourceError


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


@pytest.fixture(params=["sqlite", "duckdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(f"{request.param}://{tmp_path}/a.db", "dbapi" if request.param == "sqlite" else None)


@pytest.fixture
def sqlite(tmp_path: Path) -> Store:
    return Store(f"sqlite://{tmp_path}/a.db", "dbapi")


def test_rows_come_back(store: Store) -> None:
    assert store.write(squares(2500), rows_per_transaction=700) == 2500
    assert store.rows() == list(map(square, range(2500)))
    (progress,) = store.progress()
    assert (progress["table_name"], progress["written_rows"], progress["is_finished"]) == ("squares", 2500, 1)


def test_transactions_have_at_most_so_many_rows(store: Store) -> None:
    sizes: list[int] = []
    original = type_of(store).insert

    def insert(self: Any, name: str, rows: pa.Table) -> None:
        sizes.append(len(rows))
        original(self, name, rows)

    for limit in (1, 7, 1024, 3000, 10_000):
        with mock.patch.object(type_of(store), "insert", insert):
            store.write(squares(2500 if limit > 100 else 10), if_exists="replace", rows_per_transaction=limit)
        assert max(sizes) <= limit and sum(sizes) == len(store.rows())
        sizes.clear()


def type_of(store: Store) -> type[Any]:
    if store.driver == "dbapi":
        return DbApiConnection
    from feedpipe.databases.duckdb import DuckDBConnection

    return DuckDBConnection


def is_even(row: dict[str, Any]) -> bool:
    return row["id"] % 2 == 0


@pytest.mark.parametrize(
    ("uri", "pipe"),
    [
        ("sqlite", squares(30)),
        ("sqlite", squares(60).filter(is_even)),
        ("sqlite", squares(30).shuffle(window=8)),
        ("duckdb", squares(30)),
    ],
    ids=str,
)
def test_a_run_that_is_killed_at_any_moment_goes_on(tmp_path: Path, uri: str, pipe: fp.Pipe[Any]) -> None:
    """Each run is killed before or after it has inserted rows, or right after a transaction."""
    store = Store(f"{uri}://{tmp_path}/a.db", "dbapi" if uri == "sqlite" else None)
    moment = 0
    for moment in itertools.count():
        status = in_fork(partial(killed_at, store, pipe, 1 + moment % 5))
        if status == 0:
            break
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert moment > 5
    assert store.rows() == sorted(pipe, key=lambda row: row["id"])
    assert store.progress()[0]["is_finished"]


def killed_at(store: Store, pipe: fp.Pipe[Any], moment: int) -> None:
    moments = itertools.count(1)

    def count(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            result = function(*arguments)
            if next(moments) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return counted

    kind = type_of(store)
    with (
        mock.patch.object(kind, "begin_writing", count(kind.begin_writing)),
        mock.patch.object(kind, "insert", count(kind.insert)),
        mock.patch.object(kind, "commit_writing", count(kind.commit_writing)),
    ):
        store.write(pipe, rows_per_transaction=10)


def in_fork(function: Callable[[], object]) -> int:
    """Runs a function in a fork of this process, and returns the status of its end."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(child, 0)[1]


FAILING: set[int] = set()
"""The rows at which `fail` fails."""


def fail(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] in FAILING:
        raise ValueError("no")
    return row


@pytest.fixture(autouse=True)
def _nothing_fails() -> Iterator[None]:
    yield
    FAILING.clear()


def test_a_run_that_fails_goes_on(store: Store) -> None:
    pipe = squares(3000).map(fail)
    FAILING.add(2100)
    with pytest.raises(RowError, match="no"):
        store.write(pipe, rows_per_transaction=500)
    assert len(store.rows()) == 2000
    FAILING.clear()
    assert store.write(pipe, rows_per_transaction=900) == 3000  # other transactions, the same chunks
    assert store.rows() == list(map(square, range(3000)))


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


@pytest.mark.slow
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


class TestUnfinished:
    @pytest.fixture
    def unfinished(self, sqlite: Store) -> Store:
        """A table that has 20 of 30 rows."""
        FAILING.add(25)
        with pytest.raises(RowError):
            sqlite.write(squares(30).map(fail), rows_per_transaction=10)
        FAILING.clear()
        return sqlite

    @pytest.mark.parametrize("if_exists", ["error", "append", "replace"])
    def test_goes_on_in_any_case(self, unfinished: Store, if_exists: str) -> None:
        assert unfinished.write(squares(30).map(fail), if_exists=if_exists) == 30
        assert unfinished.rows() == list(map(square, range(30)))

    def test_of_another_pipe(self, unfinished: Store) -> None:
        for if_exists in ("error", "append"):
            with pytest.raises(
                ArgumentError, match="unfinished write of another pipe, with 20 rows; .*feedpipe_writes"
            ):
                unfinished.write(squares(31), if_exists=if_exists)
        assert unfinished.write(squares(31), if_exists="replace") == 31
        assert unfinished.rows() == list(map(square, range(31)))

    def test_into_a_table_that_was_dropped(self, unfinished: Store) -> None:
        unfinished.run("DROP TABLE squares")
        assert unfinished.write(squares(30).map(fail)) == 30
        assert unfinished.rows() == list(map(square, range(30)))

    def test_with_damaged_progress(self, unfinished: Store) -> None:
        unfinished.run("UPDATE feedpipe_writes SET state = '['")
        with pytest.raises(ArgumentError, match="the saved progress is damaged"):
            unfinished.write(squares(30).map(fail))

    def test_types_stay_those_of_the_first_rows(self, sqlite: Store) -> None:
        pipe = fp.from_sequence(range(30)).map(square).map(fail).map(with_a_name)
        FAILING.add(25)
        with pytest.raises(RowError):
            sqlite.write(pipe, rows_per_transaction=10)
        FAILING.clear()
        with pytest.raises(DataError, match="row 26 does not fit column 'name' of type string"):
            sqlite.write(pipe)


def with_a_name(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"name": 5 if row["id"] == 25 else "a" if row["id"] < 20 else None}


def test_a_run_that_was_taken_over_writes_nothing_more(sqlite: Store) -> None:
    """The second run begins when the first has written some rows, and ends before the first goes on."""
    pipe = squares(40)
    original = DbApiConnection.insert

    def insert(self: Any, name: str, rows: pa.Table) -> None:
        original(self, name, rows)
        if rows.column("id")[0].as_py() == 8:
            self.commit_writing()
            with mock.patch.object(DbApiConnection, "insert", original):
                assert sqlite.write(pipe, rows_per_transaction=8) == 40

    with (
        mock.patch.object(DbApiConnection, "insert", insert),
        pytest.raises(SourceError, match="another run has gone on"),
    ):
        sqlite.write(pipe, rows_per_transaction=8)
    assert sqlite.rows() == list(map(square, range(40)))


@pytest.mark.parametrize("commits", [False, True])
def test_a_connection_that_is_lost_at_the_end_of_a_transaction(sqlite: Store, commits: bool) -> None:
    """It cannot be known whether the transaction took effect; the progress says it."""
    original = DbApiConnection.commit_writing
    moments = itertools.count(1)

    def commit(self: Any) -> None:
        if next(moments) not in (3, 5):
            return original(self)
        if commits:
            original(self)
        else:
            self.roll_back()
        raise ConnectionError("gone")

    with mock.patch.object(DbApiConnection, "commit_writing", commit):
        assert sqlite.write(squares(40), rows_per_transaction=8) == 40
    assert sqlite.rows() == list(map(square, range(40)))


def test_a_connection_that_is_always_lost(sqlite: Store) -> None:
    with (
        mock.patch.object(DbApiConnection, "insert", side_effect=ConnectionError("gone")),
        pytest.raises(LostConnectionError, match="the connection to .* has failed: gone"),
    ):
        sqlite.write(squares(40))


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
        for module in ("adbc", "connectorx"):
            monkeypatch.setattr(f"feedpipe.databases.{module}.require", lambda module, package: None)
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
