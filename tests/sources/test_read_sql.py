"""`read_sql` with databases that need no server: DuckDB, and SQLite through Python's own interface."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any, ClassVar
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.databases.dbapi import DbApiConnection
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, SourceError, StateError
from feedpipe.extensions import KeyRange, SqlQuery
from feedpipe.testing import check_operator

Row = dict[str, Any]
Make = Callable[..., "fp.Pipe[Any]"]


def rows(count: int) -> list[Row]:
    return [{"id": 3 * n, "x": n / 2, "name": f"n{n}" if n % 3 else None} for n in range(count)]


def write_sqlite(path: Path, some: list[Row], key: str = "id INTEGER PRIMARY KEY") -> str:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE points ({key}, x REAL, name TEXT)")
        database.executemany("INSERT INTO points VALUES (:id, :x, :name)", some)
    return f"sqlite://{path}"


def change(uri: str, statement: str) -> None:
    with closing(sqlite3.connect(uri.removeprefix("sqlite://"))) as database, database:
        database.execute(statement)


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


@pytest.fixture(params=["sqlite", "duckdb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A function that makes a pipe of 100 rows; `uri` is an attribute."""
    write, read = (write_sqlite, read_sqlite) if request.param == "sqlite" else (write_duckdb, read_duckdb)
    uri = write(tmp_path / "points.db", rows(100))
    return lambda **options: read(uri, **options)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return write_sqlite(tmp_path / "points.db", rows(100))


def test_law(make: Make) -> None:
    assert check_operator(make(partitions=7).skip(70).take(20)) == rows(90)[70:]
    assert check_operator(make(partitions=3).filter(lambda row: row["id"] < 30)) == rows(10)


def test_length_and_schema(make: Make) -> None:
    pipe = make(partitions=3)
    assert len(pipe) == pipe.length == 100
    assert pipe.schema == pa.schema([("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())])
    assert make(partition_on=None).length is None
    assert make(snapshot=None).length is None


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 16, 17, 33, 99])
def test_resume(make: Make, taken: int, shuffled: bool) -> None:
    def loader() -> fp.Loader[Any]:
        pipe = make(partitions=6)
        return fp.Loader(pipe.shuffle(window=10) if shuffled else pipe, seed=3, shards=2)

    expected = list(loader())
    first = loader()
    start = list(itertools.islice(first, taken))
    resumed = loader()
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert start + list(resumed) == expected
    assert sorted(expected, key=lambda row: row["id"]) == rows(100)


@pytest.mark.slow
def test_workers(make: Make) -> None:
    with fp.Loader(make(partitions=4), workers=2, shards=2) as loader:
        assert sorted(loader, key=lambda row: row["id"]) == rows(100)


@given(
    keys=st.sets(st.integers(-(2**63), 2**63 - 1), max_size=40),
    partitions=st.integers(1, 50),
    taken=st.integers(0, 40),
)
@settings(max_examples=15)
def test_any_keys_come_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, keys: set[int], partitions: int, taken: int
) -> None:
    some = [{"id": key, "x": 0.5, "name": ""} for key in sorted(keys)]
    uri = write_sqlite(tmp_path_factory.mktemp("keys") / "a.db", some)
    loader = fp.Loader(read_sqlite(uri, partitions=partitions))
    elements = iter(loader)
    start = list(itertools.islice(elements, min(taken, len(some))))
    resumed = fp.Loader(read_sqlite(uri, partitions=partitions))
    resumed.load_state_dict(loader.state_dict())
    assert start + (list(resumed) if len(start) < len(some) else []) == some


class SqliteThatSaysWhetherItSorts(DbApiConnection):
    def __init__(self, keys: Iterable[int | None], *, sorts: bool) -> None:
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE TABLE points (id INTEGER)")
        connection.executemany("INSERT INTO points VALUES (?)", [(key,) for key in keys])
        super().__init__(connection)
        self._sorts = sorts

    def has_order(self, statement: str, query: SqlQuery) -> bool:
        return not self._sorts


@given(
    keys=st.sets(st.integers(-100, 100), max_size=60),
    partitions=st.none() | st.integers(1, 70),
    step=st.integers(1, 70),
    steps=st.integers(1, 5),
)
@settings(max_examples=40)
def test_walking_and_numbering_find_the_same_ranges(
    keys: set[int], partitions: int | None, step: int, steps: int
) -> None:
    query = SqlQuery("SELECT * FROM points", "id")
    constants = {"ROWS_OF_STEP": step, "STEPS_OF_STATEMENT": steps}
    with patch.multiple("feedpipe.databases.key_ranges", **constants):
        walked, numbered = [
            SqliteThatSaysWhetherItSorts(keys, sorts=sorts).ranges(query, partitions) for sorts in (False, True)
        ]
    assert walked == numbered
    assert [key for low, high, _ in walked for key in sorted(keys) if low <= key <= high] == sorted(keys)


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("keys", "words"), [([1, 2, 2, 3], "several rows have id = 2"), ([1, None], "1 row has no id")]
)
def test_walking_refuses_keys_that_do_not_identify_rows(keys: list[int | None], words: str, step: int) -> None:
    query = SqlQuery("SELECT * FROM points", "id")
    with patch("feedpipe.databases.key_ranges.ROWS_OF_STEP", step), pytest.raises(DataError, match=words):
        SqliteThatSaysWhetherItSorts(keys, sorts=False).ranges(query, 2)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("VARCHAR", ["", "a'b", "a\\b", "naïve", "z"]),
        ("BLOB", [b"", b"\x00", b"\x00\xff", b"a"]),
        ("DECIMAL(30, 5)", ["-1.50000", "0.00001", "123456789012345678901.00001"]),
        ("UUID", ["00000000-0000-0000-0000-000000000001", "10000000-0000-0000-0000-000000000000"]),
        ("TIMESTAMP", ["2024-01-01 00:00:00.000001", "2024-01-01 00:00:00.000002", "2025-01-01 00:00:00"]),
        ("TIMESTAMPTZ", ["2024-01-01 00:00:00.000001+00", "2024-01-01 00:00:00.000002+00"]),
        ("DATE", ["2024-01-01", "2024-01-02", "2025-01-01"]),
        ("UBIGINT", [0, 1, 2**64 - 1]),
    ],
)
def test_types_of_keys(tmp_path: Path, kind: str, values: list[Any]) -> None:
    with closing(duckdb.connect(tmp_path / "keys.db")) as database:
        database.execute(f"CREATE TABLE keys (k {kind} PRIMARY KEY, n INT)")
        database.executemany("INSERT INTO keys VALUES (?, ?)", [(value, n) for n, value in enumerate(values)])

    def pipe(partitions: int) -> fp.Pipe[Any]:
        return fp.read_sql("FROM keys", f"duckdb://{tmp_path}/keys.db", partition_on="k", partitions=partitions)

    for partitions in (1, 2, len(values)):
        assert [row["n"] for row in pipe(partitions)] == list(range(len(values)))
    loader = fp.Loader(pipe(1))
    next(iter(loader))
    resumed = fp.Loader(pipe(1))
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert [row["n"] for row in resumed] == list(range(1, len(values)))


def test_parameters_and_comments(make: Make) -> None:
    text = "SELECT id FROM points WHERE id < ? -- small ones;\n;"
    database = re.search(r"(sqlite|duckdb)://[^']*", repr(make()))[0]  # type: ignore[index]
    driver = "dbapi" if database.startswith("sqlite") else None
    pipe = fp.read_sql(text, database, partition_on="id", partitions=2, parameters=[10], driver=driver)  # type: ignore[arg-type]
    assert list(pipe) == [{"id": 0}, {"id": 3}, {"id": 6}, {"id": 9}]


def test_an_absolute_path_may_have_four_slashes(make: Make) -> None:
    database = re.search(r"(sqlite|duckdb)://[^']*", repr(make()))[0]  # type: ignore[index]
    driver = "dbapi" if database.startswith("sqlite") else None
    pipe = fp.read_sql("SELECT id FROM points", database.replace(":///", ":////"), driver=driver)  # type: ignore[arg-type]
    assert {row["id"] for row in pipe} == {row["id"] for row in make()}


def test_a_table_without_rows(tmp_path: Path) -> None:
    pipe = read_sqlite(write_sqlite(tmp_path / "none.db", []))
    assert len(pipe) == 0
    assert list(fp.Loader(pipe)) == []
    pipe = read_duckdb(write_duckdb(tmp_path / "none.duckdb", []))
    assert list(pipe) == []
    assert pipe.schema is not None
    assert pipe.schema.names == ["id", "x", "name"]


def test_a_column_that_begins_with_nulls(tmp_path: Path) -> None:
    some = [{"id": n, "x": None, "name": "late" if n == 4999 else None} for n in range(5000)]
    pipe = read_sqlite(write_sqlite(tmp_path / "nulls.db", some), partitions=3)
    assert list(pipe) == some


class TestBadInput:
    def test_keys_that_are_not_unique(self, tmp_path: Path) -> None:
        some = [{"id": n // 2, "x": 0.0, "name": ""} for n in range(10)]
        uri = write_sqlite(tmp_path / "twice.db", some, "id INTEGER")
        for partitions in (1, 2, 3, 10):
            with pytest.raises(DataError, match="whose values are unique.*several rows have id = "):
                list(read_sqlite(uri, partitions=partitions))

    def test_keys_that_are_null(self, tmp_path: Path) -> None:
        some = [{"id": None, "x": 0.0, "name": ""}, {"id": 1, "x": 0.0, "name": ""}]
        with pytest.raises(DataError, match="without nulls.*1 row has no id"):
            list(read_sqlite(write_sqlite(tmp_path / "nulls.db", some, "id INTEGER")))

    def test_keys_that_are_not_exact(self, uri: str) -> None:
        with pytest.raises(DataError, match="'x' is of type double"):
            list(read_sqlite(uri, partition_on="x"))

    def test_no_such_column(self, uri: str) -> None:
        with pytest.raises(ArgumentError, match="`partition_on` must name a column.*'ids'; did you mean 'id'"):
            list(read_sqlite(uri, partition_on="ids"))

    @pytest.mark.parametrize("query", ["SELECT * FROM nothing", "DELETE FROM points", "SELECT 1; SELECT 2", "SELEC"])
    def test_a_query_that_cannot_be_read(self, uri: str, query: str) -> None:
        with pytest.raises(SourceError, match=r"cannot read the query: .*\n  at .*test_read_sql.py"):
            list(fp.read_sql(query, uri, partition_on="id", driver="dbapi"))

    def test_two_columns_of_one_name(self, uri: str) -> None:
        query = "SELECT id, x AS id FROM points"
        with pytest.raises((DataError, SourceError), match="id"):
            list(fp.read_sql(query, uri, driver="dbapi"))

    def test_no_such_database(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="cannot read the query: there is no file '.*none.db'"):
            list(read_sqlite(f"sqlite://{tmp_path}/none.db"))
        assert not list(tmp_path.iterdir())

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

    def test_a_driver_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("feedpipe.core.packages.find_spec", lambda name: None)
        with pytest.raises(ArgumentError, match=r"package adbc-driver-postgresql.*feedpipe\[databases\]"):
            fp.read_sql("SELECT 1", "postgresql://host/database")

    def test_a_snapshot_that_does_not_exist(self, uri: str) -> None:
        with pytest.raises(SourceError, match="'require', but .* gives no snapshots"):
            list(read_sqlite(uri, snapshot="require"))
        with pytest.raises(SourceError, match="'require' with several URIs"):
            list(read_sqlite([uri, uri], snapshot="require"))  # type: ignore[arg-type]

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

    def test_a_state_keeps_the_ranges_of_a_table_that_grows(self, uri: str) -> None:
        loader = fp.Loader(read_sqlite(uri, partitions=5))
        elements = iter(loader)
        start = list(itertools.islice(elements, 30))
        state = json.loads(json.dumps(loader.state_dict()))
        change(uri, "INSERT INTO points SELECT id + 1000, x, name FROM points")
        resumed = fp.Loader(grown := read_sqlite(uri, partitions=5))
        resumed.load_state_dict(state)
        assert start + list(resumed) == rows(100)
        assert len(fp.Loader(grown)) == 100  # the pipe has what the state had
        assert len(fp.Loader(read_sqlite(uri, partitions=5))) == 200

    def test_a_loader_that_has_begun_takes_the_ranges_of_a_state(self, uri: str) -> None:
        loader = fp.Loader(read_sqlite(uri, partitions=5))
        elements = iter(loader)
        start = list(itertools.islice(elements, 30))
        state = loader.state_dict()
        change(uri, "INSERT INTO points SELECT id + 1000, x, name FROM points")
        other = fp.Loader(read_sqlite(uri, partitions=5))
        next(iter(other))
        assert len(other) == 200
        other.load_state_dict(state)
        assert start + list(other) == rows(100)

    def test_a_state_of_another_query_is_refused(self, uri: str) -> None:
        loader = fp.Loader(read_sqlite(uri, partitions=5))
        next(iter(loader))
        other = fp.Loader(fp.read_sql("SELECT id FROM points", uri, partition_on="id", partitions=5, driver="dbapi"))
        with pytest.raises(StateError, match="is now `read_sql"):
            other.load_state_dict(loader.state_dict())


def test_a_state_holds_thousands_of_ranges_in_little_room(tmp_path: Path) -> None:
    some = [{"id": 1000 * n + n * n % 700, "x": 0.0, "name": ""} for n in range(8192)]
    loader = fp.Loader(read_sqlite(write_sqlite(tmp_path / "many.db", some), partitions=4096))
    next(iter(loader))
    assert len(json.dumps(loader.state_dict())) < 50_000


class TestSecrets:
    URI = "postgresql://ann:hunter%2B2@127.0.0.1:1/shop?sslpassword=tulip"

    def test_are_not_shown(self) -> None:
        pipe = fp.read_sql("SELECT 1", lambda: self.URI, partition_on="id")
        try:
            list(pipe)
        except (SourceError, ArgumentError) as error:
            texts = [repr(pipe), str(error), repr(error), str(error.__cause__)]
        for secret in ("hunter", "tulip", "ann"):
            assert not [text for text in texts if secret in text]

    def test_are_masked_in_the_words_of_a_driver(self) -> None:
        class Talkative:
            def connect(self, uri: str) -> Any:
                raise RuntimeError(f"cannot log in to {uri} with hunter+2 and tulip")

        pipe = fp.read_sql("SELECT 1", self.URI, driver=Talkative())
        with pytest.raises(SourceError) as caught:
            list(pipe)
        texts = [repr(pipe), str(caught.value), str(caught.value.__cause__)]
        for secret in ("hunter", "tulip"):
            assert not [text for text in texts if secret in text]
        assert "postgresql://***@127.0.0.1:1/shop" in texts[1]

    def test_are_in_no_state(self, uri: str) -> None:
        def connect() -> Any:
            return sqlite3.connect(uri.removeprefix("sqlite://") + "", check_same_thread=False)

        pipe = fp.read_sql("SELECT * FROM points WHERE name <> ?", connect, partition_on="id", parameters=["hunter2"])
        loader = fp.Loader(pipe)
        next(iter(loader))
        assert "hunter2" not in json.dumps(loader.state_dict()) + repr(pipe) + repr(loader)


class TestFunctionsAndDrivers:
    def test_a_function_that_returns_a_uri(self, uri: str) -> None:
        assert len(read_sqlite(lambda: uri)) == 100  # type: ignore[arg-type]

    def test_a_function_that_returns_a_connection(self, uri: str) -> None:
        def connect() -> sqlite3.Connection:
            return sqlite3.connect(uri.removeprefix("sqlite://"), check_same_thread=False)

        pipe = fp.read_sql("SELECT * FROM points", connect, partition_on="id", partitions=3)
        assert check_operator(pipe) == rows(100)
        assert "connect" in repr(pipe)

    def test_a_driver_of_the_user(self) -> None:
        pipe = fp.read_sql("squares", "squares://100", partition_on="n", driver=Squares())
        assert check_operator(pipe) == [{"n": n, "square": n * n} for n in range(100)]
        pickle.loads(pickle.dumps(pipe))

    def test_a_connection_that_is_lost(self) -> None:
        Squares.losses = itertools.chain([False, True], itertools.repeat(False))
        pipe = fp.read_sql("squares", ["squares://100", "squares://100"], partition_on="n", driver=Squares())
        assert list(pipe) == [{"n": n, "square": n * n} for n in range(100)]

    def test_all_connections_are_lost(self) -> None:
        Squares.losses = itertools.chain([False], itertools.repeat(True))
        pipe = fp.read_sql("squares", ["squares://100", "squares://100"], partition_on="n", driver=Squares())
        try:
            with pytest.raises(SourceError, match="the connection to 'squares://100' has failed: gone"):
                list(pipe)
        finally:
            Squares.losses = itertools.repeat(False)


class TestTheNextRange:
    @pytest.fixture
    def rows_of_slow_ranges(self) -> Iterator[fp.Loader[Any]]:
        SlowRanges.reset()
        pipe = fp.read_sql("squares", "squares://30", partition_on="n", driver=SlowRanges())
        with fp.Loader(pipe, shards=1) as loader:
            yield loader

    def test_begins_while_the_rows_before_it_are_used(self, rows_of_slow_ranges: fp.Loader[Any]) -> None:
        elements = iter(rows_of_slow_ranges)
        assert [row["n"] for row in itertools.islice(elements, 10)] == list(range(10))
        assert SlowRanges.second_has_begun.wait(20)
        SlowRanges.may_go_on.set()
        assert [row["n"] for row in elements] == list(range(10, 30))

    def test_is_cancelled_when_the_loader_is_closed(self, rows_of_slow_ranges: fp.Loader[Any]) -> None:
        elements = iter(rows_of_slow_ranges)
        assert len(list(itertools.islice(elements, 10))) == 10
        assert SlowRanges.second_has_begun.wait(20)
        rows_of_slow_ranges.close()
        assert SlowRanges.events == ["cancel", "close"]

    def test_begins_in_its_turn_without_threads(self) -> None:
        SlowRanges.reset()
        pipe = fp.read_sql("squares", "squares://30", partition_on="n", driver=SlowRanges())
        for elements in iter(pipe), iter(fp.Loader(pipe, fp.InProcess(debug=True), shards=1)):
            assert len(list(itertools.islice(elements, 10))) == 10
            assert not SlowRanges.second_has_begun.is_set()


class Squares:
    """A driver of numbers that no database holds. It loses its connection if `losses` says so."""

    losses: Iterator[bool] = itertools.repeat(False)

    def connect(self, uri: str) -> SquaresConnection:
        if next(Squares.losses):
            raise ConnectionError("gone")
        return SquaresConnection(int(uri.partition("://")[2]))


class SquaresConnection:
    def __init__(self, count: int) -> None:
        self.count = count

    def describe(self, query: SqlQuery) -> pa.Schema:
        return pa.schema([("n", pa.int64()), ("square", pa.int64())])

    def ranges(self, query: SqlQuery, count: int | None) -> list[KeyRange]:
        return [KeyRange(low, low + 9, 10) for low in range(0, self.count, 10)]

    def read(self, query: SqlQuery, after: int | None, high: int) -> Iterator[pa.RecordBatch]:
        for low in range(0 if after is None else after + 1, high + 1, 4):
            numbers = list(range(low, min(low + 4, high + 1)))
            yield pa.record_batch({"n": numbers, "square": [n * n for n in numbers]})

    def close(self) -> None:
        pass


class SlowRanges:
    """A driver whose second range waits until it may go on, or is cancelled."""

    second_has_begun = Event()
    may_go_on = Event()
    events: ClassVar[list[str]] = []

    @classmethod
    def reset(cls) -> None:
        cls.second_has_begun.clear()
        cls.may_go_on.clear()
        cls.events.clear()

    def connect(self, uri: str) -> SlowRangesConnection:
        return SlowRangesConnection(int(uri.partition("://")[2]))


class SlowRangesConnection(SquaresConnection):
    def read(self, query: SqlQuery, after: int | None, high: int) -> Iterator[pa.RecordBatch]:
        if after == 9:
            SlowRanges.second_has_begun.set()
            assert SlowRanges.may_go_on.wait(20)
            if SlowRanges.events:
                raise ConnectionError("the statement was cancelled")
        yield from super().read(query, after, high)

    def cancel(self) -> None:
        SlowRanges.events.append("cancel")
        SlowRanges.may_go_on.set()

    def close(self) -> None:
        if SlowRanges.second_has_begun.is_set():
            SlowRanges.events.append("close")
