"""`read_sql` with a real PostgreSQL."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.testing import check_operator

from ..servers.postgres import Postgres

COUNT = 20_000


@pytest.fixture(scope="module")
def uri(postgres: Postgres) -> str:
    run(
        postgres.uri,
        f"CREATE TABLE points AS SELECT i * 3 AS id, i / 2.0::float8 AS x FROM generate_series(0, {COUNT - 1}) i",
        "ALTER TABLE points ADD PRIMARY KEY (id)",
        "CREATE ROLE stranger LOGIN PASSWORD 'stranger'",
    )
    return postgres.uri


def run(uri: str, *statements: str) -> None:
    with closing(psycopg.connect(uri, autocommit=True)) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[arg-type]


@pytest.fixture
def table(uri: str) -> Iterator[str]:
    """A copy of the table, which a test may change."""
    run(uri, "CREATE TABLE copied AS TABLE points", "ALTER TABLE copied ADD PRIMARY KEY (id)")
    yield "copied"
    run(uri, "DROP TABLE copied")


def points(uri: Any, table: str = "points", **options: Any) -> fp.Pipe[Any]:
    return fp.read_sql(f"SELECT * FROM {table}", uri, **{"partition_on": "id"} | options)


def ids(some: Any) -> list[int]:
    return [row["id"] for row in some]


ALL = list(range(0, 3 * COUNT, 3))


def test_law(uri: str) -> None:
    pipe = fp.read_sql("SELECT * FROM points WHERE id < 60", uri, partition_on="id", partitions=4)
    assert check_operator(pipe) == [{"id": 3 * n, "x": n / 2} for n in range(20)]


@pytest.mark.parametrize("driver", [None, "connectorx"])
def test_rows_in_order(uri: str, driver: Any) -> None:
    pipe = points(uri, driver=driver, partitions=3)
    assert len(pipe) == COUNT
    assert ids(pipe) == ALL


@pytest.mark.parametrize("taken", [1, 4_999, 5_000, 13_337])
def test_resume_in_the_middle_of_a_range(uri: str, taken: int) -> None:
    loader = fp.Loader(points(uri, partitions=4).batch(7).unbatch(), shards=2)
    expected = ids(loader)
    first = fp.Loader(points(uri, partitions=4).batch(7).unbatch(), shards=2)
    start = ids(itertools.islice(first, taken))
    resumed = fp.Loader(points(uri, partitions=4).batch(7).unbatch(), shards=2)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert start + ids(resumed) == expected


def test_workers_and_a_shuffle(uri: str) -> None:
    pipe = points(uri, partitions=16).shuffle(window=100)
    with fp.Loader(pipe, seed=1, workers=2) as loader:
        shuffled = ids(loader)
    assert sorted(shuffled) == ALL
    assert shuffled == ids(fp.Loader(points(uri, partitions=16).shuffle(window=100), seed=1))


def test_a_snapshot_hides_what_changes(uri: str, table: str) -> None:
    pipe = points(uri, table, partitions=4)
    with fp.Loader(pipe, workers=2) as loader:
        elements = iter(loader)
        first = next(elements)
        run(uri, f"DELETE FROM {table} WHERE id % 2 = 0", f"INSERT INTO {table} SELECT -id, x FROM points WHERE id > 0")
        assert sorted([first["id"], *ids(elements)]) == ALL
    with pytest.raises(DataError, match="must stay the same while a job reads them"):
        resumed = fp.Loader(points(uri, table, partitions=4))
        resumed.load_state_dict(fp.Loader(pipe).state_dict())
        list(resumed)


def test_rows_that_change_without_a_snapshot(uri: str, table: str) -> None:
    pipe = points([uri, uri], table, partitions=4)
    assert len(pipe) == COUNT
    run(uri, f"DELETE FROM {table} WHERE id = 30")
    with pytest.raises(DataError, match="must stay the same"):
        list(pipe)
    assert len(list(points(uri, table, snapshot=None))) == COUNT - 1


def test_a_state_keeps_the_ranges_of_a_table_that_grows(uri: str, table: str) -> None:
    loader = fp.Loader(points(uri, table, partitions=4))
    start = ids(itertools.islice(loader, 7_000))
    run(uri, f"INSERT INTO {table} SELECT id + 1000000, x FROM points")
    resumed = fp.Loader(points(uri, table, partitions=4))
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert start + ids(resumed) == ALL


def test_types(uri: str) -> None:
    query = """
        SELECT 1::bigint AS id, 1.50::numeric AS amount, TIMESTAMPTZ '2024-01-01 01:00+01' AS at, '{"a": 1}'::json AS j,
            '{}'::jsonb AS jb, ARRAY[1.5, NULL]::float8[] AS list, '\\x00ff'::bytea AS bytes, NULL::text AS nothing,
            DATE '2024-01-01' AS day, true AS yes, 'ä' AS text
    """
    (row,) = fp.read_sql(query, uri, partition_on="id")
    assert row.pop("at") == datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert row == {
        "id": 1, "amount": "1.50", "j": '{"a": 1}', "jb": "{}", "list": [1.5, None], "bytes": b"\0\xff",
        "nothing": None, "day": datetime.date(2024, 1, 1), "yes": True, "text": "ä",
    }  # fmt: skip
    with pytest.raises(DataError, match="'ip' is of type inet, .*CAST\\(ip AS text\\)"):
        list(fp.read_sql("SELECT '10.0.0.1'::inet AS ip", uri))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", "'a''b\\' || i"),
        ("numeric", "i / 7.0"),
        ("timestamptz", "TIMESTAMPTZ '2024-01-01' + i * interval '1 microsecond'"),
        ("uuid", "md5(i::text)::uuid"),
        ("bytea", "int4send(i)"),
        ("date", "DATE '2024-01-01' + i"),
    ],
)
def test_types_of_keys(uri: str, kind: str, value: str) -> None:
    query = f"SELECT i, ({value})::{kind} AS k FROM generate_series(1, 500) i"
    pipe = fp.read_sql(query, uri, partition_on="k", partitions=7)
    loader = fp.Loader(pipe)
    start = [row["i"] for row in itertools.islice(loader, 123)]
    resumed = fp.Loader(fp.read_sql(query, uri, partition_on="k", partitions=7))
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert sorted(start + [row["i"] for row in resumed]) == list(range(1, 501))


def test_parameters_and_session(uri: str) -> None:
    query = "SELECT id, current_setting('feedpipe.x') AS s FROM points WHERE id < $1"
    pipe = fp.read_sql(query, uri, partition_on="id", parameters=[9], session=["SET feedpipe.x = 'y'"])
    assert list(pipe) == [{"id": n, "s": "y"} for n in (0, 3, 6)]


def test_the_server_looks_whether_the_reader_is_there(uri: str) -> None:
    name = "client_connection_check_interval"
    query = f"SELECT current_setting('{name}') AS interval"
    assert list(fp.read_sql(query, uri)) == [{"interval": "10s"}]
    assert list(fp.read_sql(query, uri, session=[f"SET {name} = '2s'"])) == [{"interval": "2s"}]


def test_wrong_password(postgres: Postgres) -> None:
    with pytest.raises(SourceError, match="password authentication failed") as caught:
        list(points(postgres.uri_of("keeper", "WRONGTULIP")))
    assert "WRONGTULIP" not in repr(caught.value) + str(caught.value.__cause__)


def test_no_server() -> None:
    with pytest.raises(SourceError, match="the connection to 'postgresql://127.0.0.1:1/x' has failed"):
        list(points("postgresql://127.0.0.1:1/x"))


def test_dropped_connections(uri: str) -> None:
    loader = fp.Loader(points(uri, partitions=1, snapshot=None))
    elements = iter(loader)
    start = ids(itertools.islice(elements, 100))
    run(
        uri,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL",
    )
    assert start + ids(elements) == ALL


def test_a_server_that_dies_in_the_middle(postgres: Postgres, uri: str) -> None:
    wide = "SELECT id, repeat('x', 2000) AS text FROM points"
    loader = fp.Loader(fp.read_sql(wide, uri, partition_on="id", partitions=2))
    elements = iter(loader)
    start = ids(itertools.islice(elements, 3_000))
    state = json.loads(json.dumps(loader.state_dict()))
    postgres.kill()
    try:
        with pytest.raises(SourceError, match="the connection to .* has failed"):
            list(elements)
    finally:
        postgres.restart()
    resumed = fp.Loader(fp.read_sql(wide, uri, partition_on="id", partitions=2))
    resumed.load_state_dict(state)
    assert start + ids(resumed) == ALL


def test_closing_a_loader_cancels_the_statement_that_runs(postgres: Postgres) -> None:
    query = """
        SELECT n AS id, CASE WHEN n = 20 THEN pg_advisory_lock_shared(7) END IS NULL AS has_no_lock
        FROM generate_series(1, 30) n
    """
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with closing(psycopg.connect(postgres.uri, autocommit=True)) as connection:
        loader = fp.Loader(fp.read_sql(query, postgres.uri, partition_on="id", partitions=2), shards=1)
        assert len(loader) == 30
        connection.execute("SELECT pg_advisory_lock(7)")
        elements = iter(loader)
        assert [next(elements)["id"] for _ in range(10)] == [*range(1, 11)]
        before_the_lock = itertools.islice(elements, 5)  # until then, the second range is asked for
        while connection.execute(waiting).fetchone() == (0,):
            next(before_the_lock, None)
        loader.close()
        assert connection.execute(waiting).fetchone() == (0,)
