"""Connections, drivers and secrets of `read_sql`, and the range that is read ahead."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from threading import Event
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, SourceError
from feedpipe.extensions import KeyRange, SqlQuery
from feedpipe.testing import check_operator

from ..support.databases import Database
from .sql_files import rows


class TestSecrets:
    URI = "postgresql://ann:hunter%2B2@127.0.0.1:1/shop?sslpassword=tulip"

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
            return sqlite3.connect(uri.removeprefix("sqlite://"), check_same_thread=False)

        pipe = fp.read_sql("SELECT * FROM points WHERE name <> ?", connect, partition_on="id", parameters=["hunter2"])
        loader = fp.Loader(pipe)
        next(iter(loader))
        assert "hunter2" not in json.dumps(loader.state_dict()) + repr(pipe) + repr(loader)


class TestFunctionsAndDrivers:
    def test_a_function_that_returns_a_connection(self, uri: str) -> None:
        def connect() -> sqlite3.Connection:
            return sqlite3.connect(uri.removeprefix("sqlite://"), check_same_thread=False)

        pipe = fp.read_sql("SELECT * FROM points", connect, partition_on="id", partitions=3)
        assert check_operator(pipe) == rows(100)
        assert "connect" in repr(pipe)

    def test_a_connection_that_is_lost(self) -> None:
        Squares.losses = itertools.chain([False, True], itertools.repeat(False))
        pipe = fp.read_sql("squares", ["squares://100", "squares://100"], partition_on="n", driver=Squares())
        assert list(pipe) == [{"n": n, "square": n * n} for n in range(100)]

    def test_a_driver_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("feedpipe.core.checks.find_spec", lambda name: None)
        with pytest.raises(ArgumentError, match=r"package adbc-driver-postgresql.*feedpipe\[sql\]"):
            fp.read_sql("SELECT 1", "postgresql://host/database")


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


AT_EXIT = """
import os
import threading

import pyarrow as pa

import feedpipe as fp
from feedpipe.extensions import KeyRange


def say(text: str) -> None:
    os.write(1, f"{text}\\n".encode())


class Connection:
    def __init__(self):
        self.is_cancelled = threading.Event()

    def describe(self, query):
        return pa.schema({"id": pa.int64()})

    def ranges(self, query, count):
        return [KeyRange(1, 6, 6)]

    def read(self, query, after, high):
        yield pa.record_batch({"id": [1, 2]})
        yield pa.record_batch({"id": [3, 4]})
        is_read.set()
        self.is_cancelled.wait()
        say("the read ends")
        raise RuntimeError("cancelled")

    def cancel(self):
        say("cancel")
        self.is_cancelled.set()

    def close(self):
        say("close")


class Driver:
    def connect(self, uri):
        return Connection()


is_read = threading.Event()
rows = iter(fp.Loader(fp.read_sql("SELECT id FROM points", "mine://here", partition_on="id", driver=Driver())))
assert [next(rows), next(rows)] == [{"id": 1}, {"id": 2}]
is_read.wait()
if os.fork() == 0:
    raise SystemExit  # the connection is its parent's
os.wait()
say("end")
"""


def test_a_connection_that_reads_is_ended_before_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert lines == ["close", "end", "cancel", "the read ends", "close"]  # the first one has found the ranges
    assert done.stderr == ""


def test_a_forked_process_does_not_end_a_connection_of_its_parent() -> None:
    class Driver:
        closed: ClassVar[list[int]] = []

        def connect(self, uri: str) -> Any:
            return self

        def close(self) -> None:
            self.closed.append(os.getpid())

    connected = Database.of("mine://here", (), Driver()).connect_any()
    if not (child := os.fork()):
        connected.close()
        os._exit(len(Driver.closed))
    assert os.waitpid(child, 0)[1] == 0
    connected.close()
    assert Driver.closed == [os.getpid()]
