"""What the operators share that give a part of the rows, by position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Operator, Order
from ..core.rows import BlockRows, Indices
from ..errors import Origin

if TYPE_CHECKING:
    from ..engine.stage import Stage


class SliceBase(Operator, ABC):
    """The base: rows start, start + step, ... before stop."""

    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    @abstractmethod
    def bounds(self) -> tuple[int, int | None, int]:
        """Start, stop, step."""

    def length(self, stage: Stage) -> int | None:
        start, stop, step = self.bounds()
        rows = stage.input.length
        if rows is None:
            return None
        return len(range(start, rows if stop is None else min(stop, rows), step))

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        start, _, step = self.bounds()
        return stage.input.origin(start + index * step, context)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        start, _, step = self.bounds()
        if isinstance(indices, range):
            inner = range(start + indices.start * step, start + indices.stop * step, indices.step * step)
            return stage.input.rows(inner, context)
        return stage.input.rows(start + np.asarray(indices, np.int64) * step, context)

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        start, stop, step = self.bounds()
        row = at.position
        source = Cursor.of(at.token)
        wanted = start + row * step  # the position of the next row in the input
        if stop is not None and wanted >= stop:
            return
        for block in stage.input.blocks(source.advance(wanted - source.position), context):
            first = block.at.position
            last = first + len(block) if stop is None else min(stop, first + len(block))
            chosen = range(wanted - first, last - first, step)
            if chosen:
                rows, origins = block.kept(chosen)
                wanted += len(chosen) * step
                ends = wanted - first
                end = block.end if ends == len(block) else block.at.advance(ends)
                here = Cursor(block.at.advance(chosen.start).plain, 0, row)
                yield Block(rows, here, Cursor(end.plain, 0, row + len(chosen)), origins)
                row += len(chosen)
            if stop is not None and wanted >= stop:
                return
