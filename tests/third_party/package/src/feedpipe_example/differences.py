"""`differences`: each number minus the one `lag` rows before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import feedpipe as fp
from feedpipe.extensions import Block, BlockRows, Context, Cursor, Indices, Operator, Order, StageView


@dataclass(frozen=True)
class Differences(Operator):
    """Indexed if its input is: `rows` serves any position, `blocks` a streamed input."""

    kind = "differences"
    order = Order.GLOBAL  # the row before may belong to another shard

    lag: int = 1

    def __post_init__(self) -> None:
        if self.lag < 1:
            raise fp.errors.ArgumentError(f"`lag` must be >= 1 but got: {self.lag}")

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        return None if rows is None else max(0, rows - self.lag)

    def lookback(self) -> int:
        return self.lag

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        positions = np.asarray(indices, np.int64)
        earlier: Any = stage.input.rows(positions, context)
        later: Any = stage.input.rows(positions + self.lag, context)
        return [after - before for before, after in zip(earlier, later, strict=True)]

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        # The token is the cursor, in the input, of the earlier row of the next difference.
        window: deque[tuple[Any, Cursor]] = deque()
        position = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            numbers: list[object] = []
            first = window[0][1] if window else block.at
            failure: Exception | None = None
            for offset, number in enumerate(block.rows):
                cursor = block.at.advance(offset)
                if len(window) == self.lag:
                    try:
                        numbers.append(number - window[0][0])
                    except Exception as error:
                        failure = stage.failed(error, cursor, context)
                        break
                    window.popleft()
                window.append((number, cursor))
            if numbers:
                start = Cursor(first.plain, 0, position)
                position += len(numbers)
                yield Block(numbers, start, Cursor(window[0][1].plain, 0, position))
            if failure is not None:  # the rows before it are delivered first
                raise failure


def differences(pipe: fp.Pipe[float], *, lag: int = 1) -> fp.Pipe[float]:
    """Give each number minus the one `lag` rows before it."""
    return pipe.then(Differences(lag))
