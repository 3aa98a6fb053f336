"""`read_sql` with databases that need no server: DuckDB, and SQLite through Python's own interface."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, SourceError, StateError
from feedpipe.testing import check_operator

from .sql_files import read_duckdb, read_sqlite, rows, write_duckdb, write_sqlite

Make = Callable[..., "fp.Pipe[Any]"]


def change(uri: str, statement: str) -> None:
    with closing(sqlite3.connect(uri.removeprefix("sqlite://"))) as database, database:
        database.execute(statement)


@pytest.fixture(params=["sqlite", "duckdb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A function that makes a pipe of 100 rows; `uri` is an attribute."""
    write, read = (write_sqlite, read_sqlite) if request.param == "sqlite" else (write_duckdb, read_duckdb)
    uri = write(tmp_path / "points.db", rows(100))
    return lambda **options: read(uri, **options)


@pytest.mark.slow
def test_law(make: Make) -> None:
    assert check_operator(make(partitions=7).skip(70).take(20)) == rows(90)[70:]
    assert check_operator(make(partitions=3).filter(lambda row: row["id"] < 30)) == rows(10)


def test_length_and_schema(make: Make) -> None:
    pipe = make(partitions=3)
    assert len(pipe) == pipe.length == 100
    assert pipe.schema == pa.schema([("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())])
    assert make(partition_on=None).length is None
    assert make(snapshot=None).length is None


def test_workers(make: Make) -> None:
    with fp.Loader(make(partitions=4), workers=2, shards=2) as loader:
        assert sorted(loader, key=lambda row: row["id"]) == rows(100)


def test_parameters_and_comments(make: Make) -> None:
    text = "SELECT id FROM points WHERE id < ? -- small ones;\n;"
    database = re.search(r"(sqlite|duckdb)://[^']*", repr(make()))[0]  # type: ignore[index]
    driver = "dbapi" if database.startswith("sqlite") else None
    pipe = fp.read_sql(text, database, partition_on="id", partitions=2, parameters=[10], driver=driver)  # type: ignore[arg-type]
    assert list(pipe) == [{"id": 0}, {"id": 3}, {"id": 6}, {"id": 9}]


def test_a_column_that_begins_with_nulls(tmp_path: Path) -> None:
    some = [{"id": n, "x": None, "name": "late" if n == 4999 else None} for n in range(5000)]
    pipe = read_sqlite(write_sqlite(tmp_path / "nulls.db", some), partitions=3)
    assert list(pipe) == some


class TestBadInput:
    def test_no_such_column(self, uri: str) -> None:
        with pytest.raises(ArgumentError, match="`partition_on` must name a column.*'ids'; did you mean 'id'"):
            list(read_sqlite(uri, partition_on="ids"))

    @pytest.mark.parametrize("query", ["SELECT * FROM nothing", "DELETE FROM points", "SELECT 1; SELECT 2", "SELEC"])
    def test_a_query_that_cannot_be_read(self, uri: str, query: str) -> None:
        with pytest.raises(SourceError, match=r"cannot read the query: .*\n  at .*test_read_sql.py"):
            list(fp.read_sql(query, uri, partition_on="id", driver="dbapi"))

    def test_values_of_several_types(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
            database.execute("CREATE TABLE points (id INTEGER PRIMARY KEY, v)")
            database.executemany("INSERT INTO points VALUES (?, ?)", [(n, n if n < 3000 else "x") for n in range(4000)])
        with pytest.raises(DataError, match="'v' must be of type int64.*CAST"):
            list(read_sqlite(f"sqlite://{tmp_path}/a.db"))

    def test_arguments(self, uri: str) -> None:
        with pytest.raises(ArgumentTypeError, match="`query` must be a string"):
            fp.read_sql(3, uri)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="`query` must be a SELECT"):
            fp.read_sql(" ; ", uri)
        with pytest.raises(ArgumentError, match="`uri` must be a URI such as"):
            fp.read_sql("SELECT 1", "points.db")
        with pytest.raises(ArgumentError, match="must begin with one of postgresql://.*oracle://"):
            fp.read_sql("SELECT 1", "oracle://host")
        with pytest.raises(ArgumentError, match="`partitions` needs `partition_on`"):
            fp.read_sql("SELECT 1", uri, partitions=2, driver="dbapi")
        with pytest.raises(ArgumentError, match="`snapshot` must be one of"):
            fp.read_sql("SELECT 1", uri, snapshot="always", driver="dbapi")  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="`session` must be a list"):
            fp.read_sql("SELECT 1", uri, session="SET x", driver="dbapi")
        with pytest.raises(ArgumentError, match="`driver` must be None"):
            fp.read_sql("SELECT 1", uri, driver="odbc")  # type: ignore[arg-type]

    def test_ranks_that_do_not_communicate(self, uri: str) -> None:
        loader = fp.Loader(read_sqlite(uri), rank=0, world_size=2)
        with pytest.raises(PlanError, match="must run what the first of them finds for `read_sql.*snapshot=None"):
            next(iter(loader))
        ranks = [
            fp.Loader(read_sqlite(uri, partitions=4, snapshot=None), rank=r, world_size=2, even=None) for r in range(2)
        ]
        both = [row for loader in ranks for row in loader]
        assert sorted(both, key=lambda row: row["id"]) == rows(100)


class TestRowsThatChange:
    CHANGES = (
        "DELETE FROM points WHERE id = 150",
        "INSERT INTO points VALUES (151, 0, '')",
        "UPDATE points SET id = 1 WHERE id = 0",
    )

    @pytest.mark.parametrize("statement", CHANGES)
    def test_are_an_error(self, uri: str, statement: str) -> None:
        pipe = read_sqlite(uri, partitions=4)
        assert len(pipe) == 100
        change(uri, statement)
        with pytest.raises(DataError, match="must stay the same while a job reads them.*id from"):
            list(pipe)

    @pytest.mark.parametrize("statement", CHANGES[:2])
    def test_are_an_error_after_a_restart(self, uri: str, statement: str) -> None:
        loader = fp.Loader(read_sqlite(uri, partitions=2))
        elements = iter(loader)
        next(elements)
        state = loader.state_dict()
        change(uri, statement)
        resumed = fp.Loader(read_sqlite(uri, partitions=2))
        resumed.load_state_dict(state)
        with pytest.raises(DataError, match="must stay the same"):
            list(resumed)

    def test_are_read_without_checks(self, uri: str) -> None:
        pipe = read_sqlite(uri, partitions=4, snapshot=None)
        assert pipe.length is None
        before = [row["id"] for row in pipe]
        change(uri, self.CHANGES[0])
        assert [row["id"] for row in pipe] == [key for key in before if key != 150]

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_state_keeps_the_ranges_of_a_table_that_grows(self, uri: str, begun: bool) -> None:
        loader = fp.Loader(read_sqlite(uri, partitions=5))
        elements = iter(loader)
        start = list(itertools.islice(elements, 30))
        state = json.loads(json.dumps(loader.state_dict()))
        change(uri, "INSERT INTO points SELECT id + 1000, x, name FROM points")
        resumed = fp.Loader(grown := read_sqlite(uri, partitions=5))
        if begun:
            next(iter(resumed))
            assert len(resumed) == 200
        resumed.load_state_dict(state)
        assert start + list(resumed) == rows(100)
        assert len(fp.Loader(grown)) == 100  # the pipe has what the state had
        assert len(fp.Loader(read_sqlite(uri, partitions=5))) == 200

    def test_a_state_of_another_query_is_refused(self, uri: str) -> None:
        loader = fp.Loader(read_sqlite(uri, partitions=5))
        next(iter(loader))
        other = fp.Loader(fp.read_sql("SELECT id FROM points", uri, partition_on="id", partitions=5, driver="dbapi"))
        with pytest.raises(StateError, match="is now `read_sql"):
            other.load_state_dict(loader.state_dict())
