"""`read_sql` cuts any keys that identify rows into ranges, and refuses others."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.extensions import SqlQuery

from ..support.databases import DbApiConnection
from ..support.examples import examples
from .sql_files import read_sqlite, write_sqlite


@given(
    keys=st.sets(st.integers(-(2**63), 2**63 - 1), max_size=40), partitions=st.integers(1, 50), taken=st.integers(0, 40)
)
@settings(max_examples=examples(15))
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


@given(
    keys=st.sets(st.integers(-100, 100), max_size=60),
    partitions=st.none() | st.integers(1, 70),
    batch=st.integers(1, 70),
)
@settings(max_examples=examples(40))
def test_ranges_are_equal_however_the_keys_come(keys: set[int], partitions: int | None, batch: int) -> None:
    with patch("feedpipe.databases.dbapi.BATCH_ROWS", batch):
        ranges = connection(keys).ranges(SqlQuery("SELECT * FROM points", "id"), partitions)
    ordered = sorted(keys)
    size = max(1, -(-len(keys) // (partitions or 1)))
    parts = [ordered[first : first + size] for first in range(0, len(keys), size)]
    assert ranges == [(part[0], part[-1], len(part)) for part in parts]


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("keys", "words"), [([1, 2, 2, 3], "several rows have id = 2"), ([1, None], "1 row has no id")]
)
def test_keys_that_do_not_identify_rows(keys: list[int | None], words: str, batch: int) -> None:
    with patch("feedpipe.databases.dbapi.BATCH_ROWS", batch), pytest.raises(DataError, match=words):
        connection(keys).ranges(SqlQuery("SELECT * FROM points", "id"), 2)


def connection(keys: Iterable[int | None]) -> DbApiConnection:
    opened = sqlite3.connect(":memory:")
    opened.execute("CREATE TABLE points (id INTEGER)")
    opened.executemany("INSERT INTO points VALUES (?)", [(key,) for key in keys])
    return DbApiConnection(opened)


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
