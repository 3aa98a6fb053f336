"""`take_while`: the end that a predicate sets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.testing import check_operator


def below(limit: int) -> Any:
    return lambda x: x < limit


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 10), st.booleans())
def test_law(numbers: list[int], limit: int, streamed: bool) -> None:
    pipe = fp.from_sequence(numbers)
    pipe = pipe.filter(lambda x: True) if streamed else pipe
    taken = list(takewhile(below(limit), numbers))
    assert check_operator(pipe.take_while(below(limit)), samples=4) == taken
    assert check_operator(pipe.take_while(below(limit)).skip(1), samples=2) == taken[1:]


def test_nothing_behind_the_end_is_read_or_tested() -> None:
    read: list[int] = []
    tested: list[int] = []

    def rows() -> Iterator[int]:
        for x in range(10**9):
            read.append(x)
            yield x

    def predicate(x: int) -> bool:
        tested.append(x)
        return 10 // (3 - x) > 0 if x < 3 else False

    assert list(fp.from_iterable(rows).take_while(predicate)) == [0, 1, 2]
    assert tested == [0, 1, 2, 3] and len(read) < 100  # some blocks, whose lengths depend on time


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_names_the_row(streamed: bool) -> None:
    pipe = fp.from_sequence(range(9)).filter(lambda x: True) if streamed else fp.from_sequence(range(9))
    rows: list[int] = []
    with pytest.raises(fp.RowError, match=r"take_while(.|\n)*ZeroDivisionError(.|\n)*row 5\n"):
        rows.extend(pipe.take_while(lambda x: 1 / (x - 4)))
    assert rows == [0, 1, 2, 3]
    with pytest.raises(fp.RowError, match=r"take_while(.|\n)*StopIteration(.|\n)*row 1\n"):
        list(pipe.take_while(lambda x: next(iter(()))))
    with pytest.raises(ArgumentTypeError, match="`predicate` must be callable but got: 3"):
        pipe.take_while(3)  # type: ignore[arg-type]
