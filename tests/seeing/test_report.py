"""Reports: exact counts, times that sum to those of their threads, and reports of loaders in any place."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, CallSite, DataError, LoaderError, RowError, WorkerWarning

from ..support.core import times
from ..support.examples import examples
from ..support.seeing import Report, verdict

SERVICES = {"in process": fp.InProcess(), "threads": fp.Threads(2)}
PROCESSES = {"workers": fp.MultiProcess(2)}


def odd(number: int) -> bool:
    return number % 2 == 1


def fail_at_7(number: int) -> int:
    if number == 7:
        raise ValueError("no seven")
    return number


@pytest.fixture
def measures_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks are measured, also in the threads that a loader begins in this process."""
    monkeypatch.setattr(times, "FIRST_CREDIT_NS", 10**15)
    monkeypatch.setattr(times, "MAX_CREDIT_NS", 10**15)


def pipe_of(steps: list[str], counts: Counter[int] | None = None) -> fp.Pipe[object]:
    """A chain of these steps; if `counts` is given, a map after each step counts its rows by place."""
    pipe: fp.Pipe[object] = fp.from_sequence(range(40)).shuffle()
    for place, step in enumerate(steps):
        if step == "map":
            pipe = pipe.map(lambda row: row)
        elif step == "calls":
            pipe = pipe.map(lambda row: row, concurrency=3)
        elif step == "filter":
            pipe = pipe.filter(lambda row: hash(str(row)) % 3 != 0)
        elif step == "window":
            pipe = pipe.shuffle(window=5)
        elif step == "batch":
            pipe = pipe.batch(3)
        elif step == "flat":
            pipe = pipe.flat_map(lambda row: [row, row])
        else:
            pipe = pipe.prefetch(4)
        if counts is not None:
            pipe = pipe.map(counting(counts, place))
    return pipe


def counting(counts: Counter[int], place: int):
    def count(row: object) -> object:
        counts[place] += 1
        return row

    return count


STEPS = st.lists(
    st.sampled_from(["map", "calls", "filter", "window", "batch", "flat", "prefetch"]),
    min_size=1,
    max_size=4,
)


@pytest.mark.filterwarnings("ignore:.*is read again:feedpipe.errors.PlanWarning")
@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.sampled_from(sorted(SERVICES)))
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
@given(STEPS, st.sampled_from(sorted(SERVICES)))
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


@pytest.mark.filterwarnings("ignore:.*is read again:feedpipe.errors.PlanWarning")
@settings(max_examples=examples(30), deadline=None)
@given(STEPS, st.sampled_from(sorted(SERVICES)))
def test_elements_are_the_same_without_counters(steps: list[str], service: str) -> None:
    def run() -> list[object]:
        with fp.Loader(pipe_of(steps), SERVICES[service], seed=3) as loader:
            return list(loader)

    seen = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "SEEING", False)
        assert run() == seen


@pytest.mark.slow
@pytest.mark.parametrize("service", [*SERVICES.values(), *PROCESSES.values()], ids=[*SERVICES, *PROCESSES])
def test_each_service_tells_what_its_threads_did(service: object) -> None:
    pipe = fp.from_sequence(range(200)).shuffle().map(fail_at_0_never).filter(odd).prefetch(8).batch(5)
    with fp.Loader(pipe, service) as loader:
        for _ in range(3):
            assert sum(1 for _ in loader) == 20
        report = loader.report()
    assert [operator.operator.partition("(")[0] for operator in report.operators] == [
        "from_sequence", ".shuffle", ".map", ".filter", ".prefetch", ".batch",
    ]  # fmt: skip
    assert sum(operator.share for operator in report.operators) == pytest.approx(1)
    assert report.steps == 3 * 19
    assert all(operator.where and operator.where.file == __file__ for operator in report.operators)
    names = {thread.name.partition(" (")[0] for thread in report.threads}
    assert {"consumer"} < names
    assert any("prefetch" in name for name in names)
    batch = report.operators[-1]
    assert batch.measured < 1 or batch.rows == 60
    assert str(report).count("\n") >= len(report.operators)


def fail_at_0_never(number: int) -> int:
    return number


class TestPlaces:
    def test_before_the_first_element(self) -> None:
        report = fp.Loader(fp.from_sequence(range(4))).report()
        assert (report.steps, report.waiting, report.bottleneck, report.threads) == (0, 0, None, [])
        assert report.verdict == "Too short to say: 0 steps in 0.0 s."
        assert report.forecast(workers=3) == 0
        assert "from_sequence" in str(report)

    def test_in_the_middle_and_after_the_end_and_after_close(self) -> None:
        loader = fp.Loader(fp.from_sequence(range(4)))
        elements = iter(loader)
        next(elements)
        next(elements)
        assert loader.report().steps == 1
        assert list(elements) == [2, 3]
        assert loader.report().steps == 3
        loader.close()
        assert loader.report().steps == 3

    @pytest.mark.usefixtures("measures_all")
    def test_after_an_error(self) -> None:
        loader = fp.Loader(fp.from_sequence(range(10)).map(fail_at_7))
        with pytest.raises(RowError):
            list(loader)
        report = loader.report()
        assert report.steps == 6
        assert sum(table.wall_ns for table in report.ranks[0].tables) > 0

    def test_a_copy_has_counted_nothing(self) -> None:
        loader = fp.Loader(fp.from_sequence(range(4)))
        list(loader)
        assert pickle.loads(pickle.dumps(loader)).report().steps == 0
        assert loader.report().steps == 3

    def test_a_loop_that_was_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loader = fp.Loader(fp.from_sequence(range(100)))
        for element in loader:
            if element == 10:
                break
        for _ in loader:
            pass
        report = loader.report()
        assert report.steps == 10 + 99

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

    @pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
    def test_threads_of_calls_have_times_of_their_own(self, service: object) -> None:
        loader = fp.Loader(fp.from_sequence(range(50)).map(lambda number: number, concurrency=3), service)
        assert len(list(loader)) == 50
        report = loader.report()
        pools = [thread for thread in report.threads if "calls of map-1" in thread.name]
        assert pools and all(thread.states.keys() <= {"operator", "input"} for thread in pools)
        assert report.operators[1].rows <= 50, "its rows are counted once"

    def test_copies_to_a_device_have_their_time(self) -> None:
        loader = fp.Loader(fp.from_arrays({"x": np.arange(60)}).batch(4).collate(), device="cpu")
        assert len(list(loader)) == 15
        (consumer,) = loader.report().ranks[0].tables
        assert consumer.slots["device", ""].ns > 0
        assert sum(slot.ns for slot in consumer.slots.values()) == consumer.wall_ns

    @pytest.mark.parametrize("indexed", [True, False])
    def test_rows_found_in_a_cache_are_counted(self, tmp_path: Path, indexed: bool) -> None:
        pipe = fp.from_sequence(range(40))
        loader = fp.Loader((pipe if indexed else pipe.filter(lambda n: n >= 0)).cache(tmp_path), shards=1)
        for epoch in range(3):
            assert len(list(loader)) == 40
            cache = loader.report().operators[-1]
            assert (cache.hits, cache.misses) == (40 * epoch, 40)

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

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"feedpipe_report": 99}', '{"feedpipe_report": 1, "ranks": [3]}']
    )
    def test_a_file_that_holds_no_report(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(DataError, match="holds no report"):
            Report.load(tmp_path / "x.json")


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


def test_gathering_needs_a_process_group() -> None:
    loader = fp.Loader(fp.from_sequence(range(4)), rank=0, world_size=2)
    with pytest.raises(LoaderError, match="`gather_report` needs a process group"):
        fp.gather_report(loader)


def test_nothing_is_logged_of_an_epoch_that_was_short(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "feedpipe"):
        list(fp.Loader(fp.from_sequence(range(100))))
    assert not caplog.records


def test_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.open", refuse(open))
    loader = fp.Loader(fp.from_sequence(range(100)), fp.Threads(1))
    assert len(list(loader)) == 100
    assert all(thread.cpu is None and thread.delayed is None for thread in loader.report().threads)


def refuse(opened):
    def refusing(path: object, *arguments: object, **options: object) -> object:
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return opened(path, *arguments, **options)

    return refusing


def test_counting_is_off_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "SEEING", False)
    loader = fp.Loader(fp.from_sequence(range(4)))
    assert list(loader) == [0, 1, 2, 3]
    assert loader.report().steps == 0


def test_operators_that_one_call_has_made_count_as_one() -> None:
    def corpus(name: str) -> verdict.KnownOperator:
        return verdict.KnownOperator(name, ".map(f)", CallSite("train.py", 7), 1, ())

    second = 10**9
    batch = verdict.KnownOperator("batch-1", ".batch(8)", CallSite("train.py", 9), None, ("map-1", "map-2"))
    seconds = {"map-1": 2, "map-2": 2, "batch-1": 2.5}
    slots: dict[tuple[times.State, str], times.SlotTimes] = {("loop", ""): times.SlotTimes(second)}
    slots |= {("operator", name): times.SlotTimes(int(each * second)) for name, each in seconds.items()}
    wall = 7_500_000_000
    consumer = times.Table("consumer", 1, 0, wall, 0, wall, 1, 9, 90, 9, 90, 0, 0, 0, slots, {}, [])
    steps = times.StepTimes(40, 1, 50_000_000)
    report = Report(
        [verdict.RankTimes(0, 1, 0, False, 2, None, [corpus("map-1"), corpus("map-2"), batch], {}, steps, [consumer])]
    )
    assert report.bottleneck is not None
    assert (report.bottleneck.operator, report.bottleneck.share) == (".map(f)", pytest.approx(4 / 6.5))
    assert report.forecast(concurrency=4) == pytest.approx(2.5 / 3.5)
    assert [op.share for op in report.operators] == pytest.approx([2 / 6.5, 2 / 6.5, 2.5 / 6.5])


def test_a_page_of_several_ranks_compares_them(tmp_path: Path) -> None:
    loader = fp.Loader(fp.from_sequence(range(100)).map(odd).batch(4))
    assert len(list(loader)) == 25
    ranks = loader.report().ranks
    Report([*ranks, ranks[0]._replace(rank=1)]).save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "2 ranks, 48 steps" in page and "rank 1, consumer" in page and "work for a step" in page
