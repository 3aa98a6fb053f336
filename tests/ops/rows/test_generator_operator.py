"""`fp.operator`: generators of rows as operators."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError
from feedpipe.extensions import Order
from feedpipe.testing import check_operator


@fp.operator(lookback=1)
def differences(rows: Iterator[int], factor: int = 1) -> Iterator[int]:
    previous = next(rows, 0)
    for row in rows:
        yield factor * (row - previous)
        previous = row


@fp.operator(lookback=3)
def recent(rows: Iterator[int]) -> Iterator[list[int]]:
    last: deque[int] = deque(maxlen=4)
    for row in rows:
        last.append(row)
        if row % 3:
            yield list(last)
        if row % 4 == 0:
            yield [row]
    yield list(last)


@fp.operator
def totals(rows: Iterator[int]) -> Iterator[tuple[int, int]]:
    total = 0
    yield -1, 0
    for number, row in enumerate(rows):
        total += row
        yield number, total
    yield -2, total
    yield -3, total


@fp.operator(lookback=1, order=Order.ROW_LOCAL)
def evens(rows: Iterator[int]) -> Iterator[int]:
    yield from (row for row in rows if row % 2 == 0)


numbers = st.lists(st.integers(0, 30), max_size=30)


@pytest.mark.slow
@given(numbers, st.booleans())
def test_law(rows: list[int], streamed: bool) -> None:
    pipe: fp.Pipe[int] = fp.from_sequence(rows)
    pipe = pipe.filter(lambda x: True) if streamed else pipe
    got = check_operator(differences(pipe, factor=2), samples=4)
    assert got == [2 * (b - a) for a, b in itertools.pairwise(rows)]
    assert check_operator(recent(pipe), samples=6)[-1] == rows[-4:]
    sums = check_operator(totals(pipe), samples=6)
    assert sums[0] == (-1, 0) and sums[-2:] == [(-2, sum(rows)), (-3, sum(rows))] and len(sums) == len(rows) + 3
    assert check_operator(evens(pipe), samples=3) == [row for row in rows if row % 2 == 0]


def test_a_wrong_promise_is_found() -> None:
    @fp.operator(lookback=1)
    def sums(rows: Iterator[int]) -> Iterator[int]:
        total = 0
        for row in rows:
            total += row
            yield total

    with pytest.raises(AssertionError):
        check_operator(sums(fp.from_sequence(range(1, 30))))


def test_errors_name_the_row() -> None:
    @fp.operator
    def inverse(rows: Iterator[int]) -> Iterator[float]:
        for row in rows:
            yield 1 / row

    got: list[float] = []
    with pytest.raises(
        fp.RowError, match=r"`.pipe\(.*inverse\)` failed with ZeroDivisionError(.|\n)*row 3\n"
    ) as caught:
        got.extend(inverse(fp.from_sequence([1, 2, 0, 4])))
    assert got == [1.0, 0.5] and __file__ in str(caught.value)
    with pytest.raises(fp.RowError, match=r"`.map\((.|\n)*row 2\n"):
        list(differences(fp.from_sequence([1, 2, 3])).map(lambda x: 1 / 0 if x else x))
    with pytest.raises(fp.RowError, match=r"`.map\((.|\n)*row 2\n"):
        list(differences(fp.from_sequence([1, 0, 3]).map(lambda x: 1 // x)))


def test_code_states_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = fp.from_sequence(range(9)).pipe(differences, factor=3)
    assert repr(pipe) == "fp.from_sequence(range(0, 9)).pipe(differences, factor=3)"
    loader = fp.Loader(pipe)
    next(iter(loader))
    with pytest.raises(fp.errors.StateError, match="factor=3"):
        fp.Loader(fp.from_sequence(range(9)).pipe(differences, factor=4)).load_state_dict(loader.state_dict())
    pipe.explain()
    assert "runs again at most 1 rows of" in capsys.readouterr().out
    totals(fp.from_sequence(range(3))).explain()
    assert "a resume calls it with all rows from the start of the shard again" in capsys.readouterr().out


def test_arguments() -> None:
    with pytest.raises(ArgumentError, match="`lookback` must be >= 1"):
        fp.operator(lookback=0)
    with pytest.raises(ArgumentError, match="`order` must be one of"):
        fp.operator(order=Order.REGROUPS)
    wrong: Any = differences
    with pytest.raises(TypeError, match="unexpected keyword argument 'facter'"):
        wrong(fp.from_sequence([1]), facter=2)
    with pytest.raises(ArgumentTypeError, match="the first argument must be a pipe but got: "):
        wrong([1, 2])
