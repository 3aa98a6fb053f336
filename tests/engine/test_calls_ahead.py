"""Blocks with rows that need concurrent calls: how long the blocks are, and what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import feedpipe as fp
from feedpipe.errors import RowError
from feedpipe.extensions import START, Block, BlockRows, Context, Indices, Operator, Order, StageView
from feedpipe.testing import check_operator

from ..support.core import Clock, Pacing
from ..support.engine import PendingCall, ThreadPool, bind, done, resolve

SIZE = 100


class FixedSize:
    """Up to `SIZE` rows in each block."""

    def __init__(self, clock: Clock) -> None:
        pass

    def rows(self) -> int:
        return SIZE

    def produced(self, rows: BlockRows) -> None:
        pass


def blocks(pipe: fp.Pipe[Any], start: int = 0) -> Iterator[Block]:
    return bind(resolve(pipe)).blocks(START.advance(start), Context(pacing=Pacing(FixedSize)))


def lengths(pipe: fp.Pipe[Any]) -> list[int]:
    return [len(block) for block in blocks(pipe)]


def numbers(count: int, first: int = 0) -> fp.Pipe[int]:
    return fp.from_sequence(range(first, first + count))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Calls are done as soon as they are begun; counts them by their row, or the number of their group."""
    calls: Counter[int] = Counter()

    def submit(pool: ThreadPool, function: Callable[..., object], *arguments: Any) -> PendingCall:
        calls[next(value for value in arguments if isinstance(value, int))] += 1
        try:
            return done(function(*arguments))
        except Exception as error:
            failed = PendingCall()
            failed.finish(None, error)
            return failed

    monkeypatch.setattr(ThreadPool, "submit", submit)
    return calls


class Calls:
    """Calls that return when the test says so. No call may be begun twice."""

    def __init__(self) -> None:
        self.begun: dict[int, PendingCall] = {}
        self._finished: set[int] = set()

    def submit(self, pool: ThreadPool, function: Callable[..., object], row: int) -> PendingCall:
        assert row not in self.begun
        self.begun[row] = done(row) if row in self._finished else PendingCall()
        return self.begun[row]

    def finish(self, *rows: int) -> None:
        self._finished.update(rows)
        for row in rows:
            if row in self.begun:
                self.begun[row].finish(row)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(ThreadPool, "submit", lambda *arguments: calls.submit(*arguments))
    return calls


def test_rows_without_calls_come_in_blocks_as_everywhere(at_once):
    called = numbers(50, 1000).map(lambda x: x, concurrency=4)
    assert lengths(numbers(300)) == [SIZE] * 3
    # Fewer rows are looked through at first, and four calls are a quarter of those ahead.
    assert lengths(numbers(1000).concat(called)) == [16, 32, 64] + [SIZE] * 8 + [92] + [4] * 11 + [2]


def test_a_full_cache_gives_blocks_as_everywhere(at_once):
    pipe = numbers(1000).map(lambda x: -x, concurrency=4).cache()
    for _ in range(2):
        assert sum(lengths(pipe)) == 1000
    assert lengths(pipe) == lengths(pipe.shuffle()) == [16, 32, 64] + [SIZE] * 8 + [88]
    assert lengths(pipe.batch(10)) == [16, 32, 52]
    assert set(at_once) == set(range(1000)) and set(at_once.values()) == {1}


def test_a_block_has_a_quarter_of_the_calls_ahead(at_once):
    assert lengths(numbers(64).map(lambda x: x, concurrency=4)) == [4] * 16
    assert lengths(numbers(64).map(lambda x: x, concurrency=4).batch(2)) == [2] * 16
    assert lengths(numbers(64).map(lambda x: x, concurrency=4).batch(8)) == [1] * 8
    assert lengths(numbers(64).map_batches(list, 2, concurrency=4)) == [8] * 8


def test_a_block_waits_for_the_calls_of_its_first_row_only(calls):
    run = blocks(numbers(40).map(lambda x: x, concurrency=4))

    def rows_after(*finished: int) -> list[object]:
        calls.finish(*finished)
        return list(next(run).rows)

    assert rows_after(0) == [0]
    assert rows_after(1, 2, 4) == [1, 2]
    assert rows_after(3) == [3, 4]
    assert rows_after(5, 6, 7, 8, 9, 10) == [5, 6, 7, 8]
    assert set(calls.begun) == set(range(5 + 16))  # as many ahead as if each row were a block


def test_calls_are_begun_behind_rows_that_need_none(calls):
    parts = [numbers(30, 100 * k).concat(numbers(1, 100 * k + 50).map(lambda x: x, concurrency=2)) for k in range(20)]
    run = blocks(parts[0].concat(*parts[1:]))
    calls.finish(50, 150)
    rows: list[object] = []
    while 229 not in rows:
        rows += next(run).rows  # never waits for the call of the next row, which does not end
    assert rows == [row for row in range(230) if row % 100 < 30 or row in (50, 150)]
    calls.finish(250)
    assert next(run).rows[0] == 250
    assert set(calls.begun) >= {350, 450, 550}


def test_the_error_of_a_row_comes_behind_the_rows_before_it_and_nothing_is_called_twice(at_once):
    def fails(x: int) -> int:
        if x == 6:
            raise ValueError("a row that fails")
        return x

    for failing in (
        numbers(40).map(fails, concurrency=4),
        numbers(40).map(lambda x: x, concurrency=4).map(fails),
        numbers(40).map_batches(lambda rows: list(map(fails, rows)), 1, concurrency=4),
        numbers(40).map(lambda x: x, concurrency=4).map(fails).batch(1).unbatch(),
    ):
        at_once.clear()
        rows: list[int] = []
        with pytest.raises(RowError, match="row 7"):
            for block in blocks(failing):
                rows += block.rows
        assert rows == list(range(6))
        assert set(at_once.values()) <= {1}


def test_rows_that_are_drawn_twice_are_called_twice(at_once):
    pipe = numbers(8).map(lambda x: [x], concurrency=4)
    twice = pipe.concat(pipe)
    rows = [row for block in blocks(twice) for row in block.rows]
    assert rows == [[x] for x in range(8)] * 2
    assert len({id(row) for row in rows}) == 16


@dataclass(frozen=True)
class ReadAgain(Operator):
    """Runs its input for each row."""

    kind: ClassVar[str] = "read_again"
    order: ClassVar[Order] = Order.GLOBAL

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = [row for block in stage.input.blocks(START, context) for row in block.rows]
        return [rows[index] for index in indices]


def test_a_run_within_a_row_leaves_the_calls_of_others(at_once):
    pipe = numbers(20, 100).then(ReadAgain()).zip(numbers(20).map(lambda x: x, concurrency=4))
    assert [row for block in blocks(pipe) for row in block.rows] == [(100 + x, x) for x in range(20)]
    assert set(at_once) == set(range(20)) and set(at_once.values()) == {1}


@pytest.mark.parametrize("start", [0, 7, 299, 300, 305, 349, 350])
def test_a_run_begins_anywhere(at_once, start):
    pipe = numbers(300).concat(numbers(50, 300).map(lambda x: x, concurrency=4))
    assert [row for block in blocks(pipe, start) for row in block.rows] == list(range(start, 350))


def test_law():
    pipe = numbers(30).concat(numbers(30, 30).map(lambda x: x, concurrency=3))
    assert check_operator(pipe) == list(range(60))
    assert sorted(check_operator(pipe.shuffle())) == list(range(60))
    assert sorted(row for rows in check_operator(pipe.shuffle().batch(7)) for row in rows) == list(range(60))
