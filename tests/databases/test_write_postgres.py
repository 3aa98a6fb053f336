"""`write_sql` with a real PostgreSQL."""

from __future__ import annotations

import datetime
import decimal
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psycopg
import pytest

import feedpipe as fp
from feedpipe.databases.adbc import AdbcConnection
from feedpipe.errors import DataError, SourceError

from ..servers.postgres import Postgres
from .killed_writer import COUNT, row


@pytest.fixture
def uri(postgres: Postgres) -> str:
    run(postgres.uri, "DROP TABLE IF EXISTS killed, feedpipe_writes")
    return postgres.uri


def run(uri: str, statement: str) -> list[tuple[Any, ...]]:
    with closing(psycopg.connect(uri, autocommit=True)) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def rows(count: int) -> fp.Pipe[Any]:
    return fp.from_sequence(range(count)).map(row)


def test_processes_that_are_killed(uri: str) -> None:
    """Each is killed one step later than the one before; the last ends by itself."""
    script = Path(__file__).with_name("killed_writer.py")
    moments = []
    for moment in (2, 3, 4, 6, 2, 3, 100):
        command = [sys.executable, str(script), uri, str(moment)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        moments.append(done.returncode)
    assert moments == [-signal.SIGKILL] * 6 + [0]
    assert run(uri, "SELECT count(*), count(DISTINCT id), sum(x) FROM killed") == [
        (COUNT, COUNT, COUNT * (COUNT - 1) / 4)
    ]
    assert run(uri, "SELECT table_name, written_rows, is_finished FROM feedpipe_writes") == [("killed", COUNT, 1)]


def test_a_connection_that_ends_in_a_transaction(uri: str) -> None:
    original = AdbcConnection.insert
    ends = iter([False, True, False, True])

    def insert(self: AdbcConnection, name: str, table: Any) -> None:
        original(self, name, table)
        if next(ends, False):
            ((pid,),) = (batch.column(0).to_pylist() for batch in self.execute("SELECT pg_backend_pid()") if len(batch))
            run(uri, f"SELECT pg_terminate_backend({pid})")

    with mock.patch.object(AdbcConnection, "insert", insert):
        assert fp.write_sql(rows(5000), "killed", uri, rows_per_transaction=1000) == 5000
    assert run(uri, "SELECT count(*), count(DISTINCT id) FROM killed") == [(5000, 5000)]


@pytest.mark.parametrize("driver", ["adbc", "psycopg"])
def test_types(uri: str, driver: str) -> None:
    values = {
        "id": 1,
        "amount": decimal.Decimal("1.5"),
        "day": datetime.date(2024, 1, 2),
        "at": datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        "zone": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        "x": np.float32(0.5),
        "yes": True,
        "bytes": b"\x00\xff",
        "text": "ä'\\",
    }
    pipe = fp.from_sequence([values, dict.fromkeys(values) | {"id": 2}])
    fp.write_sql(pipe, "killed", uri if driver == "adbc" else lambda: psycopg.connect(uri))
    assert run(uri, f"SELECT {', '.join(values)} FROM killed ORDER BY id") == [
        tuple(values.values()),
        (2, *[None] * (len(values) - 1)),
    ]


def test_lists_and_arrays(uri: str) -> None:
    values = [{"id": n, "list": list(range(n)), "array": np.arange(3) + n} for n in range(3)]
    fp.write_sql(fp.from_sequence(values), "killed", uri)
    assert run(uri, 'SELECT "list", "array" FROM killed ORDER BY id') == [
        (list(range(n)), list(range(n, n + 3))) for n in range(3)
    ]


def test_columns_of_a_table_that_is_there_fix_the_types(uri: str) -> None:
    run(uri, "CREATE TABLE killed (id smallint, x real, note text DEFAULT 'none', PRIMARY KEY (id))")
    assert fp.write_sql(rows(3), "killed", uri, if_exists="append") == 3
    assert run(uri, "SELECT * FROM killed") == [(n, n / 2, "none") for n in range(3)]
    with pytest.raises(DataError, match="row 1 does not fit column 'id' of type int16"):
        fp.write_sql(fp.from_sequence([{"id": 2**20}]), "killed", uri, if_exists="append")
    with pytest.raises(SourceError, match=r"cannot write the table 'killed': .*duplicate key value"):
        fp.write_sql(rows(1), "killed", uri, if_exists="append")
    with pytest.raises(SourceError, match=r'Column "y" does not exist in target table'):
        fp.write_sql(fp.from_sequence([{"y": 1}]), "killed", uri, if_exists="append")


def test_the_search_path_chooses_the_schema(uri: str) -> None:
    run(uri, "DROP SCHEMA IF EXISTS shop CASCADE")
    run(uri, "CREATE SCHEMA shop")
    fp.write_sql(rows(3), "killed", uri, session=["SET search_path TO shop"])
    assert run(uri, "SELECT count(*) FROM shop.killed") == [(3,)]
    assert run(uri, "SELECT to_regclass('public.killed')") == [(None,)]


def test_no_permission(uri: str, postgres: Postgres) -> None:
    run(uri, "DROP ROLE IF EXISTS guest")
    run(uri, "CREATE ROLE guest LOGIN PASSWORD 'guest'")
    with pytest.raises(SourceError, match="cannot write the table 'killed': .*permission denied"):
        fp.write_sql(rows(3), "killed", postgres.uri_of("guest", "guest"))


def test_an_autocommit_connection_is_refused(uri: str) -> None:
    with pytest.raises(SourceError, match="must not be in autocommit mode"):
        fp.write_sql(rows(3), "killed", lambda: psycopg.connect(uri, autocommit=True))
