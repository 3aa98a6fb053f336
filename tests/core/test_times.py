"""What threads do: slots that sum to the time of their thread, tables that are added, and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedpipe.extensions import START, Block

from ..support.core import (
    Clock,
    RunTimes,
    State,
    Table,
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


def test_a_slow_block_among_fast_ones_is_measured(now: Now) -> None:
    times = RunTimes().thread("worker 0", "send")
    clock, turn = Clock(times), iter(range(1600))
    slow = measured_blocks("source", blocks_of(1600, lambda: taking(now, 1_000 if next(turn) % 16 else 200_000_000)()))
    while clock.next(slow) is not None:
        pass
    (slot,) = [slot for key, slot in times.table().slots.items() if key == ("operator", "source")]
    assert slot.ns > 0.95 * 99 * 200_000_000


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
