from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, RowError
from feedpipe.testing import check_operator

from ...support.examples import examples


@settings(max_examples=examples(25))
@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 12))
def test_law(count, size, step):
    expected = [list(range(a, a + size)) for a in range(0, count - size + 1, step)]
    source = fp.from_sequence(range(count))
    pipe = source.sliding(size, step)
    assert check_operator(pipe, samples=3) == expected and len(pipe) == len(expected)
    assert check_operator(source.filter(lambda row: True).sliding(size, step), samples=3) == expected


def test_a_failing_row_is_named():
    for source in (fp.from_sequence(range(9)), fp.from_sequence(range(9)).filter(lambda row: True)):
        iterator = iter(source.sliding(3, 2).map(lambda window: 1 / (window[0] - 4)))
        assert [next(iterator) for _ in range(2)] == [-0.25, -0.5]
        with pytest.raises(RowError, match="on from_sequence, row 5"):
            next(iterator)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((0,), ArgumentError, "`size` must be >= 1"),
        ((2, 0), ArgumentError, "`step` must be >= 1"),
        ((2, 0.5), ArgumentTypeError, "`step` must be an int"),
    ],
)
def test_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        fp.from_sequence([1]).sliding(*arguments)
