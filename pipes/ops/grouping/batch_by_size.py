"""`batch_by_size`: batches whose rows have a limited size together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...core.block import Block, join_blocks, join_origins
from ...core.checks import check_int
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Order, StageView
from ...core.rows import concat
from ...errors import ArgumentError, Origin, with_call_site
from .._data_error import data_error
from ._segments import Groups, grouped, segment_blocks
from ._size_limit import SizeLimit
from ._sizes import Measure, check_measure, segment_sizes, sizes_of
from ._tokens import TokenOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class BatchBySize(TokenOfInput):
    kind: ClassVar[str] = "batch_by_size"
    order: ClassVar[Order] = Order.REGROUPS

    limit: int
    size_of: Measure
    max_rows: int | None = None
    padded: bool = False
    window: int | None = None
    drop_last: bool = False
    leaves_over: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("limit", "max_rows", "window"):
            value = getattr(self, name)
            if value is not None or name == "limit":
                object.__setattr__(self, name, check_int(name, value, least=1))
        check_measure("size_of", self.size_of)
        if self.drop_last and self.window is not None:
            raise ArgumentError(
                with_call_site(
                    "`drop_last` must be left out with a `window`, whose batches are all as full as they can be"
                )
            )

    def lookback(self) -> int:
        return self.window or self.max_rows or 1

    def dropping(self) -> BatchBySize:
        return replace(self, leaves_over=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if self.window is None:
            return self._in_order(stage, at, context)
        groups = partial(self._of_segment, stage, context)
        return segment_blocks(stage, at, context, self.window, groups, leaves_over=self.leaves_over)

    def _of_segment(self, stage: StageView, context: Context, segment: list[Block]) -> Groups:
        sizes = segment_sizes(self, stage, context, segment, self.size_of, "size_of", self.limit)
        order = np.argsort(sizes, kind="stable")
        first = np.zeros(len(sizes), np.int64)
        first[SizeLimit(self.limit, self.max_rows, padded=self.padded).cuts(sizes[order].tolist())] = 1
        labels = np.empty(len(sizes), np.int64)
        labels[order] = np.cumsum(first)
        return grouped(segment, labels)

    def _in_order(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        limit = SizeLimit(self.limit, self.max_rows, padded=self.padded)
        row = at.row
        pending: list[Block] = []  # rows of the batch that is not complete
        for block in stage.input.blocks(Cursor.of(at.token), context):
            sizes, error = sizes_of(block.rows, self.size_of, "size_of", self.limit)
            complete, start = list[list[Block]](), 0
            for cut in limit.cuts(sizes.tolist()):
                complete.append([*pending, *([block.slice(start, cut)] if start < cut else [])])
                pending, start = [], cut
            if start < len(sizes):
                pending.append(block.slice(start, len(sizes)))
            if complete:
                first, row = row, row + len(complete)
                yield _batches(complete, first, pending[0].at)
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(len(sizes)), context))
        if pending and self.leaves_over:
            rows, origins = join_blocks(pending)
            context.leftovers[stage.name] = Block(rows, pending[0].at, pending[-1].end, origins)
        elif pending and not self.drop_last:
            yield _batches([pending], row, pending[-1].end)


def _batches(batches: list[list[Block]], row: int, end: Cursor) -> Block:
    """Complete batches; the first of them is row `row`. `end` is the input's cursor behind them."""
    elements: list[object] = [concat([block.rows[:] for block in blocks]) for blocks in batches]
    traced = batches[0][0].origins is not None
    origins = [Origin.joined(join_origins(blocks) or ()) for blocks in batches] if traced else None
    start = Cursor(batches[0][0].at.plain, 0, row)
    return Block(elements, start, Cursor(end.plain, 0, row + len(elements)), origins)


def batch_by_size(
    pipe: Pipe[T],
    /,
    limit: int,
    size_of: str | Callable[[T], float],
    *,
    max_rows: int | None = None,
    padded: bool = False,
    window: int | None = None,
    drop_last: bool = False,
) -> Pipe[Sequence[T]]:
    """Group rows into batches of at most `limit` tokens, bytes, or whatever `size_of` counts.

        aa b ccc d   ->   limit 3: [aa b] [ccc] [d]

    Element: a list of rows; of a table a `feedpipe.Rows`. Order: the input's; with `window` as in `bucket_by_length`.
    Length: unknown; streamed. State: a position in the input; with `window` a resume groups that many rows again.

    Args:
        limit: the largest size of a batch.
        size_of: a column of numbers, or of lists, arrays or text, whose lengths count; or a function of a row that
            returns a number.
        max_rows: the most rows of a batch.
        padded: the size of a batch is the number of rows times the largest of them, as after `pad_batch`; else the sum.
        window: sorts the rows of each `window` by their size first, so that little of a batch is padding.
        drop_last: leave out the last batch. The shards of a rank together leave out only one.

    Raises:
        DataError: a row alone is above `limit`, or a size is no number or below 0.
        ArgumentError: `limit`, `max_rows` or `window` is below 1, or `drop_last` is given with `window`.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["aa", "b", "ccc", "d"]).batch_by_size(3, len))
        [['aa', 'b'], ['ccc'], ['d']]
        >>> list(fp.from_sequence(["aa", "b", "cc", "d"]).batch_by_size(4, len, padded=True, window=4))
        [['aa', 'cc'], ['b', 'd']]
    """
    return pipe.then(BatchBySize(limit, size_of, max_rows, padded, window, drop_last))
