"""What threads do: slots that sum to the time of their thread, tables that are added, and steps."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedpipe.extensions import START, Block

from ..support.core import (
    Clock,
    EpochTimes,
    LoaderTimes,
    RunTimes,
    State,
    StepTimes,
    Table,
    joined,
    measured_blocks,
    waiting,
)
from ..support.core import times as core_times
from ..support.examples import examples


class Now:
    """A clock that the tests set."""

    def __init__(self) -> None:
        self.ns = 1000

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    time = Now()
    monkeypatch.setattr(core_times, "clock", time)
    return time


def blocks_of(count: int, act: Callable[[], object] = lambda: None) -> Iterator[Block]:
    for number in range(count):
        act()
        yield Block([number, number], START.advance(2 * number), START.advance(2 * number + 2))


def taking(now: Now, ns: int) -> Callable[[], None]:
    def act() -> None:
        now.ns += ns

    return act


def slot_times(table: Table) -> dict[tuple[State, str], int]:
    return {key: slot.ns for key, slot in table.slots.items() if slot.ns}


def test_a_thread_does_one_thing_at_a_moment(now: Now) -> None:
    run = RunTimes()
    clock = Clock(run.thread("worker 0", "send", starts_with_block=False))
    inner = measured_blocks("from_sequence-1", blocks_of(2, taking(now, 5_000_000)))

    def outer() -> Iterator[Block]:
        for block in inner:
            now.ns += 3_000_000
            with waiting("storage"):
                now.ns += 500_000
            yield block

    blocks = measured_blocks("map-1", outer())
    while clock.next(blocks) is not None:
        now.ns += 40_000
    with clock.waiting("consumer"):
        now.ns += 7_000
    (table,) = run.tables()
    assert slot_times(table) == {
        ("send", ""): 80_000,
        ("operator", "from_sequence-1"): 10_000_000,
        ("operator", "map-1"): 6_000_000,
        ("storage", "map-1"): 1_000_000,
        ("consumer", ""): 7_000,
    }
    assert (table.blocks, table.rows, table.measured_rows, table.wall_ns) == (2, 4, 4, now.ns - 1000)
    assert [(span.state, span.ns) for span in table.spans if span.state == "storage"] == [("storage", 500_000)] * 2


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "wait", "block", "table"]), st.integers(0, 10_000_000)), max_size=40)
)
def test_slots_sum_to_the_time_of_their_thread(moves: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_times, "clock", now := Now())
        times = RunTimes().thread("worker 0", "send")
        clock = Clock(times)

        def one_block(move: str, ns: int) -> Iterator[Block]:
            now.ns += ns // 2
            if move == "wait":
                with waiting("calls"):
                    now.ns += ns
            yield Block([0], START, START.advance(1))

        for move, ns in moves:
            now.ns += ns
            if move == "table":
                table = times.table()
                assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns == now.ns - table.began
            else:
                assert clock.next(measured_blocks(move, one_block(move, ns))) is not None
        times.end()
        now.ns += 1_000_000
        table = times.table()
    assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns
    assert sum(slot.ns + slot.start_ns for slot in table.slots.values()) == now.ns - 1_000_000 - 1000
    assert table.rows == sum(move != "table" for move, _ in moves)


def test_short_blocks_are_measured_now_and_then_and_long_ones_always(now: Now) -> None:
    def measured(ns: int) -> float:
        times = RunTimes().thread("worker 0", "send")
        clock = Clock(times)
        blocks = measured_blocks("map-1", blocks_of(2000, taking(now, ns)))
        while clock.next(blocks) is not None:
            pass
        return times.table().measured_blocks / 2000

    assert measured(10_000_000) == 1
    assert measured(1_000) < 0.02
    assert 0.001 < measured(100_000) < 0.2


def test_a_slow_block_among_fast_ones_is_measured(now: Now) -> None:
    times = RunTimes().thread("worker 0", "send")
    clock, turn = Clock(times), iter(range(1600))
    slow = measured_blocks("source", blocks_of(1600, lambda: taking(now, 1_000 if next(turn) % 16 else 200_000_000)()))
    while clock.next(slow) is not None:
        pass
    (slot,) = [slot for key, slot in times.table().slots.items() if key == ("operator", "source")]
    assert slot.ns > 0.95 * 99 * 200_000_000


def test_the_start_is_apart(now: Now) -> None:
    times = RunTimes().thread("worker 0", "send")
    clock = Clock(times)
    now.ns += 50
    blocks = measured_blocks("map-1", blocks_of(2, taking(now, 10_000_000)))
    clock.next(blocks)
    now.ns += 7
    clock.next(blocks)
    table = times.table()
    assert table.slots["operator", "map-1"][:2] == (10_000_000, 10_000_000)
    assert table.slots["send", ""][:2] == (7, 50)
    assert table.wall_ns == 10_000_007


def test_a_first_block_of_many_others_leaves_something_to_measure_the_next(now: Now) -> None:
    inner = measured_blocks("map-1", blocks_of(3000, taking(now, 1_000)))

    def window() -> Iterator[Block]:
        for number in range(3):
            for _ in range(1000 if number == 0 else 1):
                next(inner)
            yield from blocks_of(1)

    clock = Clock(times := RunTimes().thread("worker 0", "send"))
    blocks = measured_blocks("shuffle-1", window())
    clock.next(blocks)
    clock.next(blocks)
    assert times.table().measured_blocks == 2
    assert times.table().slots["operator", "map-1"].ns == 1_000


def test_a_block_that_is_not_measured_is_time_of_the_engine(now: Now) -> None:
    times = RunTimes().thread("consumer", "loop", starts_with_block=False, credit=-1_000)
    clock = Clock(times)
    tables: list[Table] = []

    def act() -> None:
        now.ns += 600_000
        with waiting("storage"), clock.waiting("consumer"):
            now.ns += 100_000
        tables.append(times.table())

    blocks = measured_blocks("map-1", blocks_of(2, act))
    for _ in range(2):
        now.ns += 50_000
        clock.next(blocks)
    now.ns += 2_000_000
    with clock.waiting("worker", "worker 0"):
        now.ns += 700_000
    assert slot_times(tables[0]) == {("loop", ""): 50_000, ("engine", ""): 700_000}
    assert slot_times(tables[1]) == {
        ("loop", ""): 100_000,
        ("engine", ""): 700_000,
        ("operator", "map-1"): 600_000,
        ("consumer", ""): 100_000,
    }
    table = times.table()
    assert (table.blocks, table.rows, table.measured_blocks) == (2, 4, 1)
    assert slot_times(table) == {
        **slot_times(tables[1]),
        ("loop", ""): 2_100_000,
        ("worker", "worker 0"): 700_000,
    }
    begin, spans = 1000 + 50_000, [(span.state, span.since, span.ns) for span in table.spans]
    assert spans[0] == ("engine", begin, 700_000)
    assert spans[1] == ("operator", begin + 750_000, 600_000)
    assert spans[2:] == [("loop", begin + 1_450_000, 2_000_000), ("worker", begin + 3_450_000, 700_000)]


def test_an_operator_that_fails_gives_its_slot_back(now: Now) -> None:
    times = RunTimes().thread("worker 0", "send")
    clock = Clock(times)

    def fail() -> None:
        now.ns += 10
        raise ValueError("no row")

    with pytest.raises(ValueError, match="no row"):
        clock.next(measured_blocks("map-1", blocks_of(1, fail)))
    now.ns += 5
    assert slot_times(times.table()) == {("operator", "map-1"): 10, ("send", ""): 5}
    with waiting("storage"):  # outside of a block of a loader nothing is counted
        now.ns += 5
    assert slot_times(times.table()) == {("operator", "map-1"): 10, ("send", ""): 10}


def test_tables_are_added_and_travel(now: Now) -> None:
    run = RunTimes()
    for name in ("worker 0", "worker 0", "worker 1"):
        times = run.thread(name, "send", starts_with_block=False)
        blocks = measured_blocks("map-1", blocks_of(2, taking(now, 1_000_000)))
        clock = Clock(times)
        clock.next(blocks)
        times.count("hits", "cache-1", 3)
        now.ns += 11
        times.end()
    tables = run.tables()
    assert pickle.loads(pickle.dumps(tables)) == tables
    first, second = tables
    assert (first.thread, first.threads, first.rows, first.wall_ns) == ("worker 0", 1, 4, 2 * 1_000_011)
    assert first.slots["operator", "map-1"].rows == 4
    assert first.events == {("hits", "cache-1"): 6}
    assert second.thread == "worker 1"
    other = RunTimes()
    other.add([first])
    other.add([first._replace(until=first.until - 1, rows=0), first._replace(process=-1)])  # late; a restarted process
    assert [table.rows for table in joined(other.tables())] == [8]


def test_tables_are_sent_now_and_then_and_at_the_end(now: Now) -> None:
    run = RunTimes()
    times = run.thread("worker 0", "send")
    for _ in range(100):
        with times.waiting("consumer"):
            now.ns += 1_000_000
    (sent,) = run.due()
    assert len(sent.spans) == core_times.SPANS_SENT
    assert run.due() == []
    assert run.due(last=True)
    now.ns += core_times.SEND_NS
    assert run.due()


def test_spans_that_were_sent_stay(now: Now, monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = RunTimes(), RunTimes()
    times = run.thread("worker 0", "send")
    for _ in range(3):
        for _ in range(core_times.SPANS_SENT + 8):
            with times.waiting("consumer"):
                now.ns += 1_000_000
        now.ns += core_times.SEND_NS  # the thread sends; the next table has it whole
        other.add(run.due())
    (table,) = other.tables()
    since = [span.since for span in table.spans]
    assert since == sorted(set(since)) and len(since) == 3 * core_times.SPANS_SENT
    monkeypatch.setattr(core_times, "SPANS", 40)
    now.ns += core_times.SEND_NS
    other.add(run.due())
    assert len(other.tables()[0].spans) == 40


def test_steps_have_stamps_that_are_far_apart_if_they_are_fast(now: Now) -> None:
    epoch = EpochTimes(StepTimes())
    now.ns += 1000
    stamp, stamps = epoch.begin(1), 0
    for step in range(2, 10_002):
        with epoch.consumer.waiting("worker", "worker 0"):
            now.ns += 400
        now.ns += 600
        if step >= stamp:
            stamp, stamps = epoch.stamp(step), stamps + 1
    epoch.step = 10_001
    steps = epoch.steps
    assert stamps < 25
    assert (steps.steps, steps.epochs, steps.start_ns) == (10_000, 1, 1000)
    assert steps.lengths[(1000).bit_length()] == sum(steps.lengths) == sum(steps.waits) == steps.waits[9]
    assert 10_000 - 2 * core_times.STAMP_NS // 1000 < sum(steps.lengths) <= 10_000


def test_the_times_of_a_loader_are_those_of_its_epochs(now: Now) -> None:
    loader = LoaderTimes()
    for _ in range(2):
        epoch = loader.begin()
        assert epoch is not None
        now.ns += 10
        epoch.begin(1)
        now.ns += 100
        epoch.step = 3
        epoch.end()
        now.ns += 10_000  # between two epochs nothing runs
    (consumer,) = loader.tables()
    assert slot_times(consumer) == {("loop", ""): 200}
    assert (consumer.threads, loader.steps.steps, loader.steps.start_ns) == (1, 4, 20)
