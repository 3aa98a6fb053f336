"""Cursors as plain values, and which plain values are cursors."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feedpipe.extensions import START, Cursor, Json

from ..support.core import checked_cursor

LARGEST = 2**63 - 1
counts = st.integers(0, LARGEST)
cursors = st.builds(Cursor, st.none() | st.text() | st.lists(counts), counts, counts)


@given(cursor=cursors)
@example(cursor=Cursor(None, LARGEST, LARGEST))
def test_a_cursor_comes_back_from_its_plain_value(cursor: Cursor) -> None:
    assert Cursor.of(cursor.plain) == checked_cursor(cursor.plain) == cursor


@given(cursor=cursors, count=counts)
def test_advance_moves_the_position_and_keeps_the_token(cursor: Cursor, count: int) -> None:
    later = cursor.advance(count)
    assert later.position == cursor.position + count
    assert (later.token, later.row) == (cursor.token, cursor.row)


def test_none_is_the_start() -> None:
    assert START == (None, 0, 0)
    assert Cursor.of(None) == checked_cursor(None) == START
    assert START.numbered() == (0, START)


@given(number=counts, inner=cursors)
def test_a_token_of_a_number_and_a_cursor(number: int, inner: Cursor) -> None:
    assert Cursor([number, inner.plain]).numbered() == (number, inner)
    assert Cursor([number, None]).numbered() == (number, START)


@pytest.mark.parametrize("wrong", [-1, LARGEST + 1, True, 1.0, "1", None])
def test_a_number_of_rows_is_whole_and_not_negative(wrong: Json) -> None:
    for plain in ([None, wrong, 0], [None, 0, wrong]):
        with pytest.raises(ValueError, match="must be a whole number >= 0 but is: "):
            checked_cursor(plain)


@pytest.mark.parametrize("plain", [[], [None, 0], [None, 0, 0, 0], 3])
def test_a_cursor_has_three_entries(plain: Json) -> None:
    with pytest.raises((TypeError, ValueError)):
        checked_cursor(plain)
