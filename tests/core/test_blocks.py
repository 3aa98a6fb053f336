"""Cursors of rows among several blocks."""

from __future__ import annotations

import pytest

from feedpipe.extensions import START, Block

from ..support.core import cursor_at

BLOCKS = [Block([0, 1, 2], START, START.advance(3)), Block([3], START.advance(3), START.advance(4))]


@pytest.mark.parametrize("index", range(5))
def test_the_cursor_of_a_row_among_blocks(index: int) -> None:
    assert cursor_at(BLOCKS, index) == START.advance(index)  # 4 is the row after the last
