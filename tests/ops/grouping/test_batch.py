from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError
from feedpipe.testing import check_operator


@given(st.integers(0, 40), st.integers(1, 9), st.booleans(), st.booleans())
def test_law(count, size, drop_last, streamed):
    source = fp.from_sequence(range(count))
    pipe = (source.filter(lambda x: True) if streamed else source).batch(size, drop_last=drop_last)
    expected = [list(range(a, min(a + size, count))) for a in range(0, count, size)]
    if drop_last:
        expected = [batch for batch in expected if len(batch) == size]
    assert check_operator(pipe, samples=4) == expected


def test_length_and_index():
    pipe = fp.from_sequence(range(10)).batch(4)
    assert len(pipe) == 3 and pipe[2] == [8, 9] and pipe[-1] == [8, 9]
    assert list(pipe[1:]) == [[4, 5, 6, 7], [8, 9]]
    with pytest.raises(IndexError, match="out of range for a pipe of 3"):
        pipe[3]


@pytest.mark.parametrize(
    ("size", "kind"), [(0, ArgumentError), (-1, ArgumentError), (2.5, ArgumentTypeError), (True, ArgumentTypeError)]
)
def test_size(size, kind):
    with pytest.raises(kind, match="`size` must be") as error:
        fp.from_sequence([1]).batch(size)
    assert "test_batch.py" in str(error.value)
