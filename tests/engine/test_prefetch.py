from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import pytest

from ..support.engine import ITEMS_AHEAD, Limit, done, in_order, read_ahead
from ..support.engine import ahead as readahead
from ..support.storage import Task


@pytest.fixture(autouse=True)
def no_other_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has not closed yet, because a traceback holds it, shares nothing with these."""
    monkeypatch.setattr(readahead, "_reading", set())


class Work:
    def __init__(self, last: int = 100, wrong: int = -1) -> None:
        self.last = last
        self.wrong = wrong
        self.taken: list[int] = []
        self.ahead: list[int] = []
        self.closed = False

    def items(self) -> Generator[int, None, None]:
        try:
            for number in range(self.last):
                self.taken.append(number)
                yield number
            if self.wrong == self.last:
                raise ValueError("no more")
        finally:
            self.closed = True

    def begin(self, item: int, ahead: bool) -> Task[int]:
        if ahead:
            self.ahead.append(item)
        return Task(lambda: item if item != self.wrong else 1 // 0)

    def run(self, *, far: bool = True) -> AbstractContextManager[Iterator[tuple[int, Task[int]]]]:
        return read_ahead(self.items(), self.begin, lambda item: far)


class Noted:
    """Work that notes what it is told. It is started as soon as there is room."""

    room = False

    def __init__(self, started: list[int], cancelled: list[int], number: int) -> None:
        self.number = number
        self.started = started
        self.cancel = partial(cancelled.append, number)

    def start(self) -> bool:
        self.started.append(self.number)
        return self.room

    def is_done(self) -> bool:
        return False


def test_in_order_and_ahead() -> None:
    work = Work()
    with work.run() as run:
        for number, (item, task) in enumerate(run):
            assert (item, task.result()) == (number, number)
            assert len(work.taken) - number - 1 == min(ITEMS_AHEAD, 99 - number)
    assert work.ahead == list(range(1, 100)) and work.closed and not readahead._reading


def test_what_is_near_is_not_taken_ahead() -> None:
    work = Work()
    with work.run(far=False) as run:
        for number, (item, _) in enumerate(run):
            assert item == number and len(work.taken) == number + 1
    assert not work.ahead


def test_runs_of_one_process_share_its_threads() -> None:
    works = [Work() for _ in range(8)]
    with ExitStack() as stack:
        runs = [stack.enter_context(work.run()) for work in works]
        for _ in range(10):
            for run in runs:
                next(run)
        assert all(len(work.taken) == 10 + ITEMS_AHEAD // 8 for work in works)
    assert not readahead._reading


def test_an_error_comes_in_its_turn() -> None:
    work = Work(last=3, wrong=3)
    with work.run() as run:
        assert [item for item, _ in itertools.islice(run, 3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="no more"):
            next(run)
    work = Work(last=3, wrong=1)
    results = []
    with pytest.raises(ZeroDivisionError), work.run() as run:
        for _, task in run:
            results.append(task.result())
    assert results == [0] and work.closed and not readahead._reading


def test_closing_it_cancels_what_is_waiting() -> None:
    cancelled: list[int] = []
    with read_ahead(Work().items(), lambda item, ahead: Noted([], cancelled, item), lambda item: True) as run:
        next(run)
    assert cancelled == list(range(1, ITEMS_AHEAD + 1))


def test_closing_it_closes_all() -> None:
    go = threading.Event()
    work = Work()
    with read_ahead(work.items(), lambda item, ahead: Task(go.wait), lambda item: True) as run:
        next(run)
    go.set()
    assert work.closed and not readahead._reading
    with Work(last=0).run() as run:
        assert list(run) == []


def test_what_waits_for_memory_is_started_again_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    near = 6
    work = Work(last=8)
    with read_ahead(work.items(), lambda item, ahead: Noted(told, [], item), lambda item: item != near) as run:
        next(run)
        assert told == [1, 2, 3, 4, 5]
        next(run)
        assert told == [1, 2, 3, 4, 5, 1, 7]  # 1 has no room, and those behind it have none either
        monkeypatch.setattr(Noted, "room", True)
        next(run)
        assert told == [1, 2, 3, 4, 5, 1, 7, 2, 3, 4, 5, 7]


def test_a_result_that_is_ready_is_used_before_the_next_item_is_taken() -> None:
    work = Work()
    for number, (item, call) in enumerate(in_order(work.items(), lambda item, early: done(item), Limit(10))):
        assert item == call.value == number and len(work.taken) == number + 1
    assert len(work.taken) == 100 and work.closed


def test_a_limit_is_shared_and_falls_if_results_are_long() -> None:
    limit = Limit(16, range(4))
    assert limit.now == 4 and Limit(16).now == 16
    limit.measure([bytes(2**25)], 1)  # eight of these are 256 MiB
    assert limit.now == 2
    limit.measure([b""], 1)
    assert limit.now == 4
