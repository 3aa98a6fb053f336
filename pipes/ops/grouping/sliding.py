"""`sliding`: windows of neighbouring rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...core.block import Block, group_origins, join_origins
from ...core.checks import check_int
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Input, Order, StageView
from ...core.rows import BlockRows, Indices, Rows, concat, index_array, take
from ._tokens import TokenOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Sliding(TokenOfInput):
    kind: ClassVar[str] = "sliding"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    size: int
    step: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("size", self.size, least=1))
        object.__setattr__(self, "step", check_int("step", self.step, least=1))

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        return None if rows is None else self._count(rows)

    def lookback(self) -> int:
        return self.size

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        first = index * self.step
        return ((stage.input, row, context) for row in range(first, first + self.size))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if isinstance(indices, range) and indices.step == 1 and self.step <= self.size and indices:
            first = indices.start * self.step
            rows = stage.input.rows(range(first, (indices.stop - 1) * self.step + self.size), context)
            return [rows[start : start + self.size] for start in range(0, len(indices) * self.step, self.step)]
        places = index_array(indices)[:, None] * self.step + np.arange(self.size)
        rows = stage.input.rows(places.reshape(-1), context)
        return [take(rows, range(start, start + self.size)) for start in range(0, places.size, self.size)]

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        # The token is the input's cursor at the first row of a window.
        row = at.position
        position = row * self.step  # in the input, of the first row of the next window
        source = Cursor.of(at.token)
        pending: list[Block] = []
        for block in stage.input.blocks(source.advance(position - source.position), context):
            pending.append(block)
            _drop_before(pending, position)
            count = self._count(sum(map(len, pending)))
            if not count:
                continue
            start = Cursor(pending[0].at.plain, 0, row)
            windows, origins = self._windows([part.rows for part in pending], count), join_origins(pending)
            row += count
            position += count * self.step
            _drop_before(pending, position)
            end = pending[0].at if pending else block.end.advance(position - block.end.position)
            spans = (range(first, first + self.size) for first in range(0, count * self.step, self.step))
            output = [Block(windows, start, Cursor(end.plain, 0, row), group_origins(origins, spans))]
            del block, windows  # only the consumer holds them now
            yield output.pop()

    def _count(self, rows: int) -> int:
        return max(0, (rows - self.size) // self.step + 1)

    def _windows(self, parts: list[BlockRows], count: int) -> list[object]:
        spans = [(start, start + self.size) for start in range(0, count * self.step, self.step)]
        joined = concat(parts)
        if isinstance(joined, Rows) or not any(isinstance(part, Rows) for part in parts):
            return [joined[start:stop] for start, stop in spans]
        # Whether a window has columns must not depend on its neighbours.
        return [concat(_between(parts, start, stop)) for start, stop in spans]


def _between(parts: list[BlockRows], start: int, stop: int) -> list[BlockRows]:
    """Rows `start` to `stop` (exclusive) of all parts."""
    pieces: list[BlockRows] = []
    for part in parts:
        piece = part[max(0, start) : max(0, stop)]
        pieces += [piece] if len(piece) else []
        start, stop = start - len(part), stop - len(part)
    return pieces


def _drop_before(blocks: list[Block], position: int) -> None:
    """Removes the rows before row `position` of the input."""
    while blocks and blocks[0].at.position + len(blocks[0]) <= position:
        del blocks[0]
    if blocks:
        blocks[0] = blocks[0].slice(position - blocks[0].at.position, len(blocks[0]))


def sliding(pipe: Pipe[T], /, size: int, step: int = 1) -> Pipe[Sequence[T]]:
    """Give windows of `size` neighbouring rows, each `step` rows behind the one before it.

        a b c d e   ->   sliding(3): [a b c] [b c d] [c d e]

    Element: a list of rows; of a table a `feedpipe.Rows`. Order is the input's. Length: the number of full windows.
    Indexed if the input is. State: a position; a resume reads one window again.

    Args:
        size: rows in each window.
        step: how many rows further each window begins; `size` gives windows that do not overlap, and rows at the end
            that do not fill a window are left out.

    Raises:
        ArgumentError: `size` or `step` is below 1.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(5)).sliding(3))
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        >>> fp.from_sequence(range(100)).sliding(10, step=5)[2]
        [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    """
    return pipe.then(Sliding(size, step))
