"""The base of `take`, `skip` and `slice`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Order, StageView
from ...core.rows import Indices
from .._same_rows import Rearranged
from ..grouping._tokens import TokenOfInput


class SliceBase(TokenOfInput, Rearranged):
    """Gives rows start, start + step, ... before stop, by their position among all rows."""

    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    @abstractmethod
    def bounds(self) -> tuple[int, int | None, int]:
        """Start, stop and step; a stop of None stands for the end of the rows."""

    def length(self, stage: StageView) -> int | None:
        start, stop, step = self.bounds()
        rows = stage.input.length
        if rows is None:
            return None
        return len(range(start, rows if stop is None else min(stop, rows), step))

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        start, _, step = self.bounds()
        if isinstance(indices, range):
            return range(start + indices.start * step, start + indices.stop * step, indices.step * step)
        return start + indices * step

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        start, stop, step = self.bounds()
        row = at.position
        position = start + row * step  # of the next row, in the input
        if stop is not None and position >= stop:
            return
        source = Cursor.of(at.token)
        for block in stage.input.blocks(source.advance(position - source.position), context):
            first = block.at.position
            last = first + len(block) if stop is None else min(stop, first + len(block))
            indices = range(position - first, last - first, step)
            if indices:
                rows, origins = block.select(indices)
                position += len(indices) * step
                count = position - first  # rows of the block that need not be read again
                end = block.end if count == len(block) else block.at.advance(count)
                here = Cursor(block.at.advance(indices.start).plain, 0, row)
                row += len(indices)
                yield Block(rows, here, Cursor(end.plain, 0, row), origins)
            if stop is not None and position >= stop:
                return
