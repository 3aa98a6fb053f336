"""Counters of worker processes, of services that know nothing of counters, and under clocks that jump."""

from __future__ import annotations

from itertools import cycle
from math import isfinite
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp

from ..support.core import Table, times
from ..support.examples import examples
from ..support.seeing import Report


def nothing(number: int) -> int:
    return number


def even(number: int) -> bool:
    return number % 2 == 0


PIPES = {
    "indexed": fp.from_sequence(range(200)).shuffle().map(nothing).batch(5),
    "calls": fp.from_sequence(range(200)).map(nothing, concurrency=2).batch(5),
    "streamed": fp.from_sequence(range(400)).filter(even).map(nothing).batch(5),
    "prefetch": fp.from_sequence(range(400)).filter(even).prefetch(20).map(nothing).batch(5),
    "remote": fp.from_sequence(range(200)).map(nothing).remote().batch(5),
    "dispatch": fp.from_iterable(list(range(400))).filter(even).dispatch().map(nothing).batch(5),
}
"""Each gives 40 batches of 5 rows."""
SHARDS = {"remote": 2, "dispatch": 2}
"""Workers cannot make one shard of these in turn."""


def tables_of(report: Report) -> list[Table]:
    return [table for rank in report.ranks for table in rank.tables]


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPES)
def test_slots_of_worker_processes_sum_to_their_time_and_all_rows_are_counted(name: str) -> None:
    with fp.Loader(PIPES[name], workers=2, shards=SHARDS.get(name)) as loader:
        for epoch in (1, 2):
            assert sum(1 for _ in loader) == 40
            report = loader.report()
            tables = tables_of(report)
            assert {"consumer", "worker 0", "worker 1"} <= {table.thread for table in tables}
            for table in tables:
                assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns, table.thread
            assert report.steps == epoch * 39
            if name in ("indexed", "calls"):
                rows = {table.thread: table.rows for table in tables if table.rows}
                assert rows == {"worker 0": 20 * epoch, "worker 1": 20 * epoch}
    assert len({table.process for table in tables}) == (4 if name == "dispatch" else 3)


class Now:
    """A clock that the tests set."""

    def __init__(self) -> None:
        self.ns = 10**15

    def __call__(self) -> int:
        return self.ns


def test_a_thread_that_does_not_end_is_seen_at_its_work() -> None:
    stuck, free = Event(), Event()

    def wait_at_5(number: int) -> int:
        if number == 5:
            stuck.set()
            free.wait()
        return number

    loader = fp.Loader(fp.from_sequence(range(10)).map(wait_at_5), fp.Threads(1))
    rows: list[int] = []
    loop = Thread(target=lambda: rows.extend(loader))
    loop.start()
    stuck.wait()
    try:
        tables = {table.thread: table for table in tables_of(loader.report())}
        for table in tables.values():
            assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns, table.thread
        made = tables["worker 0"]
        assert any(state in ("operator", "engine") and slot.ns for (state, _), slot in made.slots.items())
    finally:
        free.set()
        loop.join()
    assert rows == list(range(10))
    assert loader.report().steps == 9


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-(10**13), 10**13), min_size=1), st.sampled_from([fp.InProcess(), fp.Threads(2)]))
def test_a_clock_that_jumps_changes_no_element(jumps: list[int], service: object) -> None:
    turns = cycle(jumps)
    now = Now()

    def jump() -> int:
        now.ns += next(turns)
        return now.ns

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "clock", jump)
        with fp.Loader(fp.from_sequence(range(60)).filter(even).prefetch(4).batch(3), service) as loader:
            assert sum(sum(batch) for _ in range(2) for batch in loader) == 2 * sum(range(0, 60, 2))
            report = loader.report()
    assert report.steps == 18
    assert 0 <= report.waiting <= 1
    assert all(0 <= operator.share <= 1 and operator.rows >= 0 for operator in report.operators)
    assert str(report)
    assert all(isfinite(number) for number in report.metrics().values())
