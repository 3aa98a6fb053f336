"""Operators that make units of known lengths, alone or in sums of neighbours, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import feedpipe as fp
from feedpipe.extensions import Block, Context, Cursor, Operator, Order, Weights


@dataclass(frozen=True)
class Granules(Operator):
    """Handles (number, rows) whose rows are known in sums of `granule` neighbours."""

    kind: ClassVar[str] = "granules"
    order: ClassVar[Order] = Order.ROW_LOCAL

    granule: int = 1
    are_rows: bool = True

    def length(self, stage) -> int:
        return stage.input.length

    def weights(self, stage, context) -> Weights:
        def each(rows: range) -> npt.NDArray[np.int64]:
            return np.array([count for _, count in stage.input.rows(rows, context)], np.int64)

        rows = each(range(stage.input.length))
        sums = np.add.reduceat(rows, np.arange(0, len(rows), self.granule))
        return Weights(sums, self.are_rows, self.granule, each)

    def rows(self, stage, indices, context):
        return stage.input.rows(indices, context)


@dataclass(frozen=True)
class Expand(Operator):
    """The rows (number of the handle, number of the row) of each handle."""

    kind: ClassVar[str] = "expand"
    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    knows_rows: bool = True

    def length(self, stage) -> int | None:
        if not self.knows_rows:
            return None
        return sum(rows for _, rows in stage.input.rows(range(stage.input.length), Context()))

    def blocks(self, stage, at, context) -> Iterator[Block]:
        row = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            for index, (number, count) in enumerate(block.rows):
                if count:
                    start = Cursor(block.at.advance(index).plain, 0, row)
                    row += count
                    rows: list[object] = [(number, place) for place in range(count)]
                    yield Block(rows, start, Cursor(block.at.advance(index + 1).plain, 0, row))


def pipe_of(rows: list[int], granule: int, *, are_rows: bool = True, window: int | None = 5) -> fp.Pipe[Any]:
    units = fp.from_sequence(list(enumerate(rows))).then(Granules(granule, are_rows))
    pipe: fp.Pipe[Any] = units.then(Expand(are_rows))
    return pipe if window is None else pipe.shuffle(window=window)
