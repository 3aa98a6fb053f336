"""Groups that are made within segments: the input is cut into `window` rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..core.block import Block, group_rows, join_blocks
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import StageView
from ..core.rows import BlockRows
from ..errors import Origin

Groups: TypeAlias = tuple[BlockRows, list[Origin | None] | None]
"""The groups of a segment, and the origin of the first row of each."""


def segment_blocks(
    stage: StageView,
    at: Cursor,
    context: Context,
    window: int,
    groups: Callable[[list[Block]], Groups],
    *,
    leaves_over: bool = False,
) -> Iterator[Block]:
    """The groups of each segment of the input, for operators that do not seek.

    Nothing is carried over to the next segment, so a resume reads one segment again. The token is the input's cursor
    at the segment.

    Args:
        stage, at, context: as in `Operator.blocks`.
        window: rows of a segment.
        groups: makes the groups of one segment.
        leaves_over: whether the rows of an incomplete last segment are left over for the rank.
    """
    row = at.row
    for segment in group_rows(stage.input.blocks(Cursor.of(at.token), context), window):
        start, end = segment[0].at, segment[-1].end
        if leaves_over and sum(map(len, segment)) < window:
            rows, origins = join_blocks(segment)
            context.leftovers[stage.name] = Block(rows, start, end, origins)
            return
        elements, origins = groups(segment)
        first, row = row, row + len(elements)
        output = [Block(elements, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)]
        del segment, elements  # only the consumer holds them now
        if row > first:
            yield output.pop()


def cursor_in(blocks: list[Block], index: int) -> Cursor:
    """The cursor of row `index` among the rows of all blocks."""
    for block in blocks:
        if index < len(block):
            return block.at.advance(index)
        index -= len(block)
    return blocks[-1].end
