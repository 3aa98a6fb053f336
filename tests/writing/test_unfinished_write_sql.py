"""Runs of `write_sql` that are killed, fail, are taken over or lose their connection."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError, RowError, SourceError

from ..loading.resumes import status_of_fork
from ..support.databases import DbApiConnection, LostConnectionError
from .sql_store import Store, square, squares


def is_even(row: dict[str, Any]) -> bool:
    return row["id"] % 2 == 0


@pytest.mark.slow
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
        status = status_of_fork(partial(killed_at, store, pipe, 1 + moment % 5))
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

    kind = store.connection_type
    with (
        mock.patch.object(kind, "begin_writing", count(kind.begin_writing)),
        mock.patch.object(kind, "insert", count(kind.insert)),
        mock.patch.object(kind, "commit_writing", count(kind.commit_writing)),
    ):
        store.write(pipe, rows_per_transaction=10)


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
