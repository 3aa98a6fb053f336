"""Counters of worker processes, of services that know nothing of counters, and under clocks that jump."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from math import isfinite
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp

from ..support.core import SlotTimes, Table, times
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


def tables_of(report: Report) -> list[Table]:
    return [table for rank in report.ranks for table in rank.tables]


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPES)
def test_slots_of_worker_processes_sum_to_their_time(name: str) -> None:
    with fp.Loader(PIPES[name], workers=2) as loader:
        for epoch in (1, 2):
            assert sum(1 for _ in loader) == 40
            report = loader.report()
            tables = tables_of(report)
            assert {"consumer", "worker 0", "worker 1"} <= {table.thread for table in tables}
            for table in tables:
                assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns, table.thread
            assert report.steps == epoch * 39
    assert len({table.process for table in tables}) == (4 if name == "dispatch" else 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["indexed", "calls"])
def test_the_rows_of_worker_processes_are_counted_to_the_last(name: str) -> None:
    with fp.Loader(PIPES[name], workers=2) as loader:
        for epoch in (1, 2):
            assert sum(1 for _ in loader) == 40
            rows = {table.thread: table.rows for table in tables_of(loader.report()) if table.rows}
            assert rows == {"worker 0": 20 * epoch, "worker 1": 20 * epoch}


class Now:
    """A clock that the tests set."""

    def __init__(self) -> None:
        self.ns = 10**15

    def __call__(self) -> int:
        return self.ns


@dataclass(frozen=True)
class OtherService:
    """A service that knows nothing of counters: another thread makes the items, each in 9 ms."""

    now: Now
    workers: int = 1
    ordered: bool = True
    global_generators: bool = False

    def start(self) -> OtherExecutor:
        return OtherExecutor(self.now)


class OtherExecutor:
    def __init__(self, now: Now) -> None:
        self.now = now
        self.inner = fp.InProcess().start()

    def open(self, *arguments: Any) -> OtherSession:
        items: list[Any] = []
        thread = Thread(target=lambda: items.extend(self.inner.open(*arguments)))
        thread.start()
        thread.join()
        return OtherSession(items, self.now)

    def close(self) -> None:
        self.inner.close()


class OtherSession:
    def __init__(self, items: list[Any], now: Now) -> None:
        self.items = items
        self.now = now

    def __iter__(self) -> Iterator[Any]:
        for item in self.items:
            self.now.ns += 9_000_000
            yield item

    def close(self) -> None:
        pass


def test_of_a_service_without_counters_the_wait_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "clock", now := Now())
    loader = fp.Loader(fp.from_sequence(range(601)).map(nothing), OtherService(now))
    rows = []
    for row in loader:
        rows.append(row)
        now.ns += 1_000_000
    report = loader.report()
    assert rows == list(range(601))
    assert (report.steps, report.waiting, report.bottleneck) == (600, pytest.approx(5400 / 6001), None)
    assert report.verdict.startswith("The training loop waits 90% for data; nothing is known of what makes them")
    (table,) = tables_of(report)
    assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns == 6_000_000_000 + 1_000_000


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
        assert any(
            state in ("operator", "engine") and slot.ns + slot.start_ns for (state, _), slot in made.slots.items()
        )
    finally:
        free.set()
        loop.join()
    assert rows == list(range(10))
    assert loader.report().steps == 9


def test_a_control_group_that_is_stopped_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "clock", now := Now())

    def slow(number: int) -> int:
        now.ns += 9_000_000
        return number

    loader = fp.Loader(fp.from_sequence(range(601)).map(slow))
    for _ in loader:
        now.ns += 1_000_000
    (rank,) = loader.report().ranks
    found = Report([rank]).bottleneck
    assert found is not None and (found.kind, found.operator[-6:]) == ("operator", ".slow)")
    stopped = Report([rank._replace(tables=[table._replace(periods=50, throttled=40) for table in rank.tables])])
    assert (
        "The control group may not use more CPUs: it is stopped for the rest of a period in 80% of" in stopped.verdict
    )
    found = stopped.bottleneck
    assert found is not None and (found.kind, found.operator[-6:]) == ("cpus", ".slow)")
    assert found.repair.startswith("raise its limit of CPUs")


def test_calls_that_hold_the_gil_are_no_reason_for_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = fp.Loader(fp.from_sequence(range(100)).map(nothing, concurrency=3).batch(2))
    assert len(list(loader)) == 50
    (rank,) = loader.report().ranks
    second = 10**9
    calls = SlotTimes(ns=12 * second, cpu_ns=4 * second, measured_ns=12 * second)
    (pool,) = [table for table in rank.tables if table.thread == "calls of map-1"]
    pool = pool._replace(threads=3, wall_ns=12 * second, slots={("operator", "map-1"): calls}, delayed_ns=0)
    (consumer,) = [table for table in rank.tables if table.thread == "consumer"]
    waits = {("loop", ""): SlotTimes(ns=second), ("calls", "map-1"): SlotTimes(ns=3 * second)}
    consumer = consumer._replace(wall_ns=4 * second, slots=waits)

    def found(cpu: int, delayed: int, look: int = second // 100) -> tuple[str, str]:
        seen = pool._replace(observed_ns=12 * second, cpu_ns=cpu, delayed_ns=delayed, looks=100, looks_ns=100 * look)
        report = Report([rank._replace(tables=[consumer, seen])])
        assert report.bottleneck is not None, report.verdict
        return report.bottleneck.kind, report.verdict

    assert found(4 * second, 0)[0] == "gil"
    assert "holds the GIL, so its 3 calls at a time work like one" in found(4 * second, 0)[1]
    kind, verdict = found(2 * second, 7 * second)
    assert kind == "cpus" and "Otherwise: `" in verdict and "holds the GIL" in verdict
    for kind, verdict in (found(second // 2, 0), found(4 * second, 0, look=50_000)):
        assert kind == "operator" and "concurrency=" in verdict


def test_a_worker_that_ended_early_has_not_just_begun() -> None:
    with fp.Loader(fp.from_sequence(range(100)).map(nothing).batch(2), fp.Threads(2)) as loader:
        assert len(list(loader)) == 50
        (rank,) = loader.report().ranks
    second = 10**9
    by_name = {table.thread: table for table in rank.tables}
    loop = {("loop", ""): SlotTimes(ns=3 * second)}
    consumer = by_name["consumer"]._replace(began=0, until=3 * second, clock=0, wall_ns=3 * second, slots=loop)

    def verdict(began: int) -> str:
        late = by_name["worker 1"]._replace(began=began, until=began + second // 10, clock=0, wall_ns=second // 10)
        return Report([rank._replace(tables=[consumer, late])]).verdict

    assert verdict(0).startswith("The data is not the bottleneck")
    assert verdict(5 * second // 2).startswith("Too short to say")


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
