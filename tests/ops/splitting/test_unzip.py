"""`unzip`: the items of tuples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator


@given(st.lists(st.tuples(st.integers(), st.text(max_size=2), st.booleans()), max_size=30), st.booleans())
def test_law(rows: list[tuple[int, str, bool]], streamed: bool) -> None:
    source = fp.from_sequence(rows)
    pipes = (source.filter(lambda row: True) if streamed else source).unzip(3)
    assert [check_operator(pipe, samples=3) for pipe in pipes] == [[row[k] for row in rows] for k in range(3)]
    assert [pipe.indexed for pipe in pipes] == [not streamed] * 3


def test_it_undoes_zip() -> None:
    letters, numbers = fp.from_sequence("abc").zip(fp.from_sequence([1, 2, 3])).shuffle().unzip(2)
    assert dict(zip(letters, numbers, strict=True)) == {"a": 1, "b": 2, "c": 3}
    assert list(letters.zip(numbers)) == list(zip(letters, numbers, strict=True))


@pytest.mark.parametrize("streamed", [False, True])
def test_rows_of_another_width(streamed: bool) -> None:
    for other, text in (
        ((1,), "rows must have 2 items but one has 1"),
        ("ab", "tuples or lists but one is of type str"),
    ):
        source = fp.from_sequence([(1, 2), [3, 4], other])
        pipe = (source.filter(lambda row: True) if streamed else source).unzip(2)[1]
        rows: list[object] = []
        with pytest.raises(DataError, match=rf"`.unzip\(2\)\[1\]`: .*{text}\n  on .*row 3\n  at "):
            rows.extend(pipe)
        assert rows == [2, 4]


def test_code_and_arguments() -> None:
    pipe = fp.from_sequence([(1, 2)])
    assert repr(pipe.unzip(2)[1]).endswith(".unzip(2)[1]")
    with pytest.raises(ArgumentError, match="`count` must be >= 1 but got: 0"):
        pipe.unzip(0)
