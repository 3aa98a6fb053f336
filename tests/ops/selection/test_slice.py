from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError
from feedpipe.testing import check_operator


@given(st.integers(0, 40), st.integers(0, 50), st.none() | st.integers(0, 50), st.integers(1, 7), st.booleans())
def test_law(count, start, stop, step, streamed):
    source = fp.from_sequence(range(count))
    pipe = (source.filter(lambda x: True) if streamed else source).slice(start, stop, step)
    assert check_operator(pipe, samples=4) == list(range(count))[start:stop:step]


@pytest.mark.parametrize("streamed", [False, True])
def test_take_and_skip(streamed):
    source = fp.from_sequence(range(10))
    source = source.filter(lambda x: True) if streamed else source
    assert check_operator(source.take(3)) == [0, 1, 2]
    assert check_operator(source.take(0)) == []
    assert check_operator(source.take(99)) == list(range(10))
    assert check_operator(source.skip(8)) == [8, 9]
    assert check_operator(source.skip(99)) == []
    assert check_operator(source.skip(2).take(3)) == [2, 3, 4]


def test_take_reads_no_further():
    read: list[int] = []

    def rows():
        for x in range(10**9):
            read.append(x)
            yield x

    assert list(fp.from_iterable(rows).take(3)) == [0, 1, 2]
    assert len(read) < 10


def test_arguments():
    with pytest.raises(ArgumentError, match="`count` must be >= 0 but got: -1"):
        fp.from_sequence([1]).take(-1)
    with pytest.raises(ArgumentError, match="`step` must be >= 1 but got: 0"):
        fp.from_sequence([1]).slice(0, 1, 0)
