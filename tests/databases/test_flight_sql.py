"""`read_sql` with a server of Flight SQL."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import SourceError
from feedpipe.testing import check_operator

from ..servers.flight_sql import FlightSqlServer

COUNT = 20_000
ALL = list(range(0, 3 * COUNT, 3))


@pytest.fixture(scope="module")
def server() -> Iterator[FlightSqlServer]:
    with FlightSqlServer() as server:
        server.execute(f"CREATE TABLE points AS SELECT i * 3 AS id, i / 2 AS x FROM range({COUNT}) r(i)")
        yield server


def points(uri: str, **options: Any) -> fp.Pipe[Any]:
    return fp.read_sql("SELECT * FROM points", uri, **{"partition_on": "id", "partitions": 4} | options)


def ids(some: Any) -> list[int]:
    return [row["id"] for row in some]


def test_law(server: FlightSqlServer) -> None:
    pipe = fp.read_sql("SELECT * FROM points WHERE id < 60", server.uri, partition_on="id", partitions=4)
    assert check_operator(pipe) == [{"id": 3 * n, "x": n / 2} for n in range(20)]


def test_rows_in_order(server: FlightSqlServer) -> None:
    pipe = points(server.uri)
    assert len(pipe) == COUNT
    assert pipe.schema == pa.schema([("id", pa.int64()), ("x", pa.float64())])
    assert ids(pipe) == ALL


@pytest.mark.parametrize("taken", [1, 5_000, 13_337])
def test_resume(server: FlightSqlServer, taken: int) -> None:
    loader = fp.Loader(points(server.uri))
    start = ids(itertools.islice(loader, taken))
    resumed = fp.Loader(points(server.uri))
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert start + ids(resumed) == ALL


def test_workers(server: FlightSqlServer) -> None:
    with fp.Loader(points(server.uri), workers=2) as loader:
        assert sorted(ids(loader)) == ALL


@pytest.mark.parametrize(("kind", "value"), [("VARCHAR", "'a''b\\' || i"), ("TIMESTAMP", "make_timestamp(i)")])
def test_types_of_keys(server: FlightSqlServer, kind: str, value: str) -> None:
    query = f"SELECT i, ({value})::{kind} AS k FROM range(100) r(i)"
    rows = list(fp.read_sql(query, server.uri, partition_on="k", partitions=7))
    assert sorted(row["i"] for row in rows) == list(range(100))


def test_errors(server: FlightSqlServer) -> None:
    with pytest.raises(SourceError, match="cannot read the query: .*Table with name nothing does not exist"):
        list(fp.read_sql("SELECT * FROM nothing", server.uri))
    with pytest.raises(SourceError, match="the connection to 'grpc://127.0.0.1:1' has failed: .*refused"):
        list(points("grpc://127.0.0.1:1"))


def test_a_server_that_ends_in_the_middle(server: FlightSqlServer) -> None:
    """Another one goes on after the last row."""
    with FlightSqlServer() as other:
        other.execute(f"CREATE TABLE points AS SELECT i * 3 AS id, i / 2 AS x FROM range({COUNT}) r(i)")
        rows = iter(points([other.uri, server.uri], snapshot=None))
        start = ids(itertools.islice(rows, 10))
        other.shutdown()
        assert start + ids(rows) == ALL
