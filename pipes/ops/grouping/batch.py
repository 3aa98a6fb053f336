"""`batch`: groups of `size` rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

import numpy as np

from ...core.block import Block, group_origins, join_blocks
from ...core.checks import check_int
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Input, Order, StageView
from ...core.rows import BlockRows, Indices, index_array, take
from ._batches import filled_batches, full_batches, shorter_batch
from ._tokens import TokenOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Batch(TokenOfInput):
    kind: ClassVar[str] = "batch"
    order: ClassVar[Order] = Order.REGROUPS
    seeks: ClassVar[bool] = True

    size: int
    drop_last: bool = False

    def moves_skipped(self) -> bool:
        return True

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("size", self.size, least=1))

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        if rows is None:
            return None
        return rows // self.size if self.drop_last else -(-rows // self.size)

    def lookback(self) -> int:
        return self.size

    def dropping(self) -> Batch:
        return replace(self, drop_last=True)

    def left_over(self, rows: int) -> int:
        return rows % self.size

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        last = min((index + 1) * self.size, stage.input.length or 0)
        return ((stage.input, row, context) for row in range(index * self.size, last))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        total = stage.input.length
        assert total is not None, "an indexed pipe knows its length"
        if isinstance(indices, range) and indices.step == 1:
            rows = stage.input.rows(range(indices.start * self.size, min(total, indices.stop * self.size)), context)
            return _without_skipped(stage, _split(rows, self.size))
        starts = index_array(indices) * self.size
        places = np.minimum(starts[:, None] + np.arange(self.size), total)  # `total`: past the end, left out below
        lengths = np.minimum(total - starts, self.size)
        rows = stage.input.rows(places[places < total], context)
        ends = np.cumsum(lengths).tolist()
        batches = [take(rows, range(end - length, end)) for end, length in zip(ends, lengths.tolist(), strict=True)]
        return _without_skipped(stage, batches)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if stage.input.may_skip:
            yield from filled_batches(stage, self.size, at, context, drop_last=self.drop_last)
            return
        row = at.position
        pending: list[Block] = []  # rows that do not fill a batch yet
        count = 0
        for block in stage.input.blocks(Cursor.of(at.token).advance(at.skip * self.size), context):
            pending.append(block)
            count += len(block)
            if count < self.size:
                continue
            rest = count % self.size
            full = [*pending[:-1], block.slice(0, len(block) - rest)] if rest else pending
            remainder = [block.slice(len(block) - rest, len(block))] if rest else []
            batches, origins = full_batches(full, self.size)
            start, end = pending[0].at, remainder[0].at if remainder else block.end
            first, row = row, row + len(batches)
            output = [Block(batches, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)]
            pending, count = remainder, rest
            del block, full, remainder, batches  # only the consumer holds them now
            yield output.pop()
        if not pending:
            return
        rows, origins = join_blocks(pending)
        start, end = pending[0].at, pending[-1].end
        if self.drop_last:
            context.leftovers[stage.name] = Block(rows, start, end, origins)
        else:
            end = Cursor(end.plain, 0, row + 1)
            yield Block([rows[:]], Cursor(start.plain, 0, row), end, group_origins(origins, [range(len(rows))]))


def _without_skipped(stage: StageView, batches: list[BlockRows]) -> list[object]:
    """The batches of an indexed input without the rows that were skipped: they keep their number, and are shorter."""
    return [shorter_batch(stage, batch) for batch in batches] if stage.input.may_skip else cast("list[object]", batches)


def _split(rows: BlockRows, size: int) -> list[BlockRows]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def batch(pipe: Pipe[T], /, size: int, *, drop_last: bool = False) -> Pipe[Sequence[T]]:
    """Group `size` rows into one element.

        a b c d e   ->   [a b] [c d] [e]

    Element: a list of rows; for rows of a table a `feedpipe.Rows`, a sequence of dicts that is stored as columns. Order
    is the input's. Length: the input's over `size`. Indexed if the input is. State: the position of the first row of a
    group.

    Args:
        size: rows in each group.
        drop_last: leave out a last group of fewer rows. The shards of a rank together leave out only one such group.

    Rows that `on_error` skips are in no group: groups of an indexed pipe keep their number and are shorter, those of a
    streamed pipe are filled up.

    Raises:
        ArgumentError: `size` is below 1.
        DataError: all rows of a group of an indexed pipe were skipped.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """
    return pipe.then(Batch(size, drop_last))
