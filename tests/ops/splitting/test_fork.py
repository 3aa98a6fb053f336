"""`fork`: branches that are read together run their input once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, LimitError
from feedpipe.testing import check_operator


class Calls:
    """A function that counts how often it is called with each row."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def __call__(self, row: Any) -> Any:
        self.counts[row] += 1
        return row


@given(st.integers(0, 40), st.booleans(), st.integers(1, 3))
def test_law(count: int, streamed: bool, branches: int) -> None:
    source = fp.from_sequence(range(count))
    pipes = (source.filter(lambda x: True) if streamed else source).fork(branches)
    assert len(pipes) == branches
    for pipe in pipes:
        assert check_operator(pipe, samples=3) == list(range(count))
        assert pipe.indexed is not streamed
    doubled = pipes[0].map(lambda x: 2 * x).zip(*pipes[1:]) if branches > 1 else pipes[0]
    assert len(check_operator(doubled, samples=3)) == count


@pytest.mark.parametrize("streamed", [False, True])
def test_branches_that_come_together_run_the_input_once(streamed: bool) -> None:
    calls = Calls()
    source = fp.from_sequence(range(500)).map(calls)
    a, b, c = (source.filter(lambda x: True) if streamed else source).fork(3)
    rows = list(a.map(lambda x: -x).zip(b, c.map(str)))
    assert rows == [(-x, x, str(x)) for x in range(500)]
    assert set(calls.counts.values()) == {1}


def test_the_branch_that_lags_is_named() -> None:
    blobs = fp.from_sequence(range(1000)).map(lambda x: np.full(1000, x % 256, np.uint8)).filter(lambda x: True)
    a, b = blobs.fork(limit="64KiB")
    slow = b.flat_map(lambda blob: [blob] * 50)
    with pytest.raises(
        LimitError, match=r"`fork\(limit='64KiB'\)`: branch 1 is \d+ rows behind branch 0, (.|\n)* at "
    ) as caught:
        list(a.zip(slow))
    assert __file__ in str(caught.value) and "read both at one pace" in str(caught.value)
    assert a.concat(b).count() == 2000  # the second branch begins when the first has ended, and reads by itself
    assert a.take(2).concat(b).count() == 1002  # no rows wait for a branch that has ended


def test_an_error_reaches_all_branches() -> None:
    def failing() -> Iterator[int]:
        yield from range(5)
        raise ValueError("broken")

    a, b = fp.from_iterable(failing).fork()
    for pipe in (a.zip(b), a.batch(2).zip(b.batch(3)), b.zip(a.map(str))):
        with pytest.raises(fp.RowError, match="broken"):
            list(pipe)
    with pytest.raises(fp.RowError, match=r"ZeroDivisionError(.|\n)*row 3\n"):
        list(a.map(lambda x: 1 / (x - 2)).zip(b))


def test_code_arguments_and_state() -> None:
    source = fp.from_sequence(range(9))
    a, b = source.fork(limit="1MiB")
    assert repr(b) == "fp.from_sequence(range(0, 9)).fork(limit='1MiB')[1]"
    with pytest.raises(ArgumentError, match="`count` must be >= 1"):
        source.fork(0)
    with pytest.raises(ArgumentError, match="`limit` must be a size"):
        source.fork(limit="much")
    loader = fp.Loader(a.batch(2))
    next(iter(loader))
    same = fp.Loader(source.batch(2))  # a fork may be added and removed
    same.load_state_dict(loader.state_dict())
    assert list(same) == [[2, 3], [4, 5], [6, 7], [8]]
