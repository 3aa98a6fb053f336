"""What threads do: slots that sum to the time of their thread, tables that are added, and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from feedpipe.extensions import START, Block

from ..support.core import (
    Clock,
    RunTimes,
    measured_blocks,
)
from ..support.core import times as core_times


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


def test_a_slow_block_among_fast_ones_is_measured(now: Now) -> None:
    times = RunTimes().thread("worker 0", "send")
    clock, turn = Clock(times), iter(range(1600))
    slow = measured_blocks("source", blocks_of(1600, lambda: taking(now, 1_000 if next(turn) % 16 else 200_000_000)()))
    while clock.next(slow) is not None:
        pass
    (slot,) = [slot for key, slot in times.table().slots.items() if key == ("operator", "source")]
    assert slot.ns > 0.95 * 99 * 200_000_000
