"""Reports: exact counts, times that sum to those of their threads, and reports of loaders in any place."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, WorkerWarning

from ..support.core import times
from ..support.examples import examples
from ..support.seeing import Report

SERVICES = {"in process": fp.InProcess(), "threads": fp.Threads(2)}


def odd(number: int) -> bool:
    return number % 2 == 1


def fail_at_7(number: int) -> int:
    if number == 7:
        raise ValueError("no seven")
    return number


STEPS: dict[str, Callable[[fp.Pipe[object]], fp.Pipe[object]]] = {
    "map": lambda pipe: pipe.map(lambda row: row),
    "calls": lambda pipe: pipe.map(lambda row: row, concurrency=3),
    "filter": lambda pipe: pipe.filter(lambda row: hash(str(row)) % 3 != 0),
    "window": lambda pipe: pipe.shuffle(window=5),
    "batch": lambda pipe: pipe.batch(3),
    "flat": lambda pipe: pipe.flat_map(lambda row: [row, row]),
    "prefetch": lambda pipe: pipe.prefetch(4),
}
CHAINS = st.lists(st.sampled_from([*STEPS]), min_size=1, max_size=4)


def pipe_of(steps: list[str], counts: Counter[int] | None = None) -> fp.Pipe[object]:
    """A chain of these steps; if `counts` is given, a map after each step counts its rows by place."""
    pipe: fp.Pipe[object] = fp.from_sequence(range(40)).shuffle()
    for place, step in enumerate(steps):
        pipe = STEPS[step](pipe)
        if counts is not None:
            pipe = pipe.map(counting(counts, place))
    return pipe


def counting(counts: Counter[int], place: int):
    def count(row: object) -> object:
        counts[place] += 1
        return row

    return count


@pytest.mark.filterwarnings("ignore:.*is read again:feedpipe.errors.PlanWarning")
@settings(max_examples=examples(60), deadline=None)
@given(CHAINS, st.sampled_from(sorted(SERVICES)))
def test_slots_sum_to_the_time_of_their_thread(steps: list[str], service: str) -> None:
    with fp.Loader(pipe_of(steps), SERVICES[service]) as loader:
        elements = sum(1 for _ in loader)
        tables = [table for rank in loader.report().ranks for table in rank.tables]
        report = loader.report()
    assert {table.thread for table in tables} >= {"consumer"}
    for table in tables:
        assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns, table.thread
    for thread in report.threads:
        assert thread.seconds == 0 or sum(thread.states.values()) == pytest.approx(1)
    assert report.steps == max(0, elements - 1)
    assert 0 <= report.waiting <= 1


@pytest.mark.filterwarnings("ignore:.*is read again:feedpipe.errors.PlanWarning")
@settings(max_examples=examples(60), deadline=None)
@given(CHAINS, st.sampled_from(sorted(SERVICES)))
def test_the_rows_of_each_operator_are_those_that_a_map_counts(steps: list[str], service: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "FIRST_CREDIT_NS", 10**15)
        patch.setattr(times, "MAX_CREDIT_NS", 10**15)
        counts: Counter[int] = Counter()
        with fp.Loader(pipe_of(steps, counts), SERVICES[service]) as loader:
            elements = list(loader)
            rows = [operator.rows for operator in loader.report().operators]
    counted = [count for place in range(len(steps)) for count in [counts[place]] * 2]
    assert rows == [40, 40, *counted]
    assert rows[-1] == len(elements)


class TestPlaces:
    def test_peek_skip_resume_and_steps(self) -> None:
        loader = fp.Loader(fp.from_sequence(range(10)), steps=6)
        loader.peek()
        assert next(iter(loader)) == 0
        loader.skip(2)
        state = loader.state_dict()
        resumed = fp.Loader(fp.from_sequence(range(10)), steps=6)
        resumed.load_state_dict(state)
        assert list(resumed) == [3, 4, 5]
        assert resumed.report().steps == 2

    def test_rows_that_were_skipped_are_told(self) -> None:
        loader = fp.Loader(fp.from_sequence(range(10)).map(fail_at_7, on_error="skip"))
        assert len(list(loader)) == 9
        assert [operator.skipped for operator in loader.report().operators] == [0, 1]

    @pytest.mark.parametrize("concurrency", [1, 3])
    @pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
    def test_calls_that_were_repeated_are_counted(self, service: object, concurrency: int) -> None:
        def failing_once() -> Callable[[int], int]:
            failed: set[int] = set()

            def fail_once(number: int) -> int:
                if number % 3 == 0 and number not in failed:
                    failed.add(number)
                    raise OSError("busy")
                return number

            return fail_once

        first, second, third = failing_once(), failing_once(), failing_once()
        retry = fp.Retry(2, backoff=0)
        pipe = fp.from_sequence(range(30)).map(first, concurrency=concurrency, retry=retry)
        pipe = pipe.filter(lambda number: second(number) >= 0, retry=retry)
        pipe = pipe.flat_map(lambda number: [third(number)], retry=retry)
        loader = fp.Loader(pipe, service, shards=1)
        assert list(loader) == list(range(30))
        report = loader.report()
        assert [operator.retried for operator in report.operators] == [0, 10, 10, 10]
        assert "10 retried" in str(report)

    @pytest.mark.slow
    def test_a_worker_that_was_killed(self) -> None:
        pipe = fp.from_sequence(range(3000)).map(odd).batch(2)
        with fp.Loader(pipe, workers=2) as loader, warnings.catch_warnings():
            warnings.simplefilter("ignore", WorkerWarning)
            for step, _ in enumerate(loader):
                if step == 100:
                    tables = {table.thread: table for table in loader.report().ranks[0].tables}
                    os.kill(tables["worker 0"].process, signal.SIGKILL)
            report = loader.report()
        assert report.steps == 1499
        assert {"worker 0", "worker 1"} <= {table.thread for table in report.ranks[0].tables}


class TestFile:
    def test_a_report_is_saved_and_loaded(self, tmp_path: Path) -> None:
        loader = fp.Loader(fp.from_sequence(range(100)).map(odd).batch(4), fp.Threads(2))
        list(loader)
        report = loader.report()
        report.save(tmp_path / "report.json")
        loaded = Report.load(tmp_path / "report.json")
        assert loaded.ranks == report.ranks
        assert (str(loaded), loaded.metrics()) == (str(report), report.metrics())


def test_metrics_are_flat_numbers() -> None:
    loader = fp.Loader(fp.from_sequence(range(100)).map(odd))
    list(loader)
    metrics = loader.report().metrics()
    assert json.loads(json.dumps(metrics)) == metrics
    assert all(type(value) is float for value in metrics.values())
    assert metrics["feedpipe/steps"] == 99


def test_wrong_numbers() -> None:
    report = fp.Loader(fp.from_sequence(range(4))).report()
    with pytest.raises(ArgumentError, match="`workers` must be >= 0"):
        report.forecast(workers=-1)
    with pytest.raises(ArgumentTypeError, match="`concurrency`"):
        report.forecast(concurrency="two")  # type: ignore[arg-type]


def test_counting_is_off_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "SEEING", False)
    loader = fp.Loader(fp.from_sequence(range(4)))
    assert list(loader) == [0, 1, 2, 3]
    assert loader.report().steps == 0


def test_a_page_of_several_ranks_compares_them(tmp_path: Path) -> None:
    loader = fp.Loader(fp.from_sequence(range(100)).map(odd).batch(4))
    assert len(list(loader)) == 25
    ranks = loader.report().ranks
    Report([*ranks, ranks[0]._replace(rank=1)]).save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "2 ranks, 48 steps" in page and "rank 1, consumer" in page and "work for a step" in page
