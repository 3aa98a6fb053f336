"""The ranges of keys of a query to PostgreSQL, and what reading them takes; `tests/sources` has those of SQLite."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import psycopg
import pytest

import feedpipe as fp
from feedpipe.databases.database import Database
from feedpipe.databases.driver import SqlQuery
from feedpipe.errors import DataError

from ..servers.postgres import Postgres

KEYS = [n * n for n in range(1000)]


@pytest.fixture
def uri(postgres: Postgres) -> str:
    """A table of skewed keys with an index, in a random order."""
    with closing(psycopg.connect(postgres.uri, autocommit=True)) as connection:
        connection.execute("DROP TABLE IF EXISTS skewed")
        connection.execute(
            "CREATE TABLE skewed AS SELECT n * n AS k, n FROM generate_series(0, 999) n ORDER BY random()"
        )
        connection.execute("ALTER TABLE skewed ADD PRIMARY KEY (k)")
    return postgres.uri


def ranges(uri: str, query: SqlQuery, count: int | None) -> list[Any]:
    with closing(Database.of(uri, [], None).connect(0)) as connected:
        connected.begin(None)
        return list(connected.call(lambda: connected.connection.ranges(query, count)))


@pytest.mark.parametrize("count", [None, 1, 2, 7, 999, 1000, 5000])
def test_ranges_are_equal(uri: str, count: int | None) -> None:
    found = ranges(uri, SqlQuery("SELECT * FROM skewed WHERE k >= 25", "k"), count)
    size = -(-995 // (count or 1))
    parts = [KEYS[first : first + size] for first in range(5, 1000, size)]
    assert found == [(part[0], part[-1], len(part)) for part in parts]


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_keys_that_are_not_unique(uri: str, count: int) -> None:
    query = "SELECT n / 2 AS half FROM skewed WHERE n < 10"
    with pytest.raises(DataError, match="several rows have half = "):
        list(fp.read_sql(query, uri, partition_on="half", partitions=count))


READ_MUCH = """
import resource, sys
import feedpipe as fp

def read(rows):
    query = f"SELECT n AS id, repeat('x', 1000) AS text FROM generate_series(1, {rows}) n"
    batches = fp.read_sql(query, sys.argv[1], partition_on="id", partitions=1).batch(100)
    assert sum(map(len, batches)) == rows
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

print(-read(5_000) + read(60_000), {"pandas", "polars"} & {*sys.modules})
"""


def test_memory_does_not_grow_with_the_table(postgres: Postgres) -> None:
    """A range of 60 MB takes no more than some batches. pandas and polars, which are large and slow, are not needed."""
    done = subprocess.run([sys.executable, "-c", READ_MUCH, postgres.uri], capture_output=True, text=True, check=True)
    megabytes, imported = done.stdout.split(maxsplit=1)
    assert int(megabytes) < 16
    assert imported.strip() == "set()"
