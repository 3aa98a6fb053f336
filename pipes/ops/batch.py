"""`batch` and `unbatch`: groups of `size` rows, and the rows of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.block import Block, group_origins, has_skipped, join_blocks, join_origins, parted, split_block
from ..core.checks import check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Amount, Grouping, Input, Order, StageView, TokenOfInput, amount_of_inputs
from ..core.rows import BlockRows, Indices, Rows, concat, index_array, take
from ..core.skips import Skipped, Skips
from ..errors import DataError, Origin
from .balance import Balance

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def batch(
    pipe: Pipe[T],
    /,
    size: int,
    *,
    drop_last: bool = False,
    balance: str | Callable[[T], float] | Sequence[float] | npt.NDArray[Any] | None = None,
    among: int = 64,
) -> Pipe[Sequence[T]]:
    """Group `size` rows into one element.

        a b c d e   ->   batch(2): [a b] [c d] [e]

    Element: a list of rows; for rows of a table a `feedpipe.Rows`, a sequence of dicts that is stored as columns. Order
    is the input's. Length: the input's over `size`. Indexed if the input is. State: the position of the first row of a
    group.

    **Equal work.** In a step, all ranks wait for the one with the costliest batch. With `balance`, the rows of each
    `size * among` are put into `among` batches that cost about the same, so that the ranks of a step do the same work
    if their number divides `among`. A batch differs by 1 % or less, unless a single row is too costly for that;
    `explain()` says by how much, and `gather_report` has the cost of each rank. The order depends on that of the rows
    alone, so shuffle before. The costs of an indexed pipe are read once, before the first row, in the order before
    shuffles, with draws as in epoch 0; 8 bytes are kept for each row. A streamed pipe is balanced within each shard, so
    that ranks are equal only on average, and a resume reads one group again.

    Args:
        size: rows in each group.
        drop_last: leave out a last group of fewer rows. The shards of a rank together leave out only one such group.
        balance: the cost of a row: a column of numbers, or of lists, arrays or text, whose lengths count; a function of
            a row that returns a number; or, for an indexed pipe, an array with a number for each row, in the order
            before shuffles.
        among: the batches to balance at a time.

    Rows that `on_error` skips are in no group: groups of an indexed pipe keep their number and are shorter, those of a
    streamed pipe are filled up.

    Raises:
        ArgumentError: `size` or `among` is below 1, or a cost of an array is below 0.
        PlanError: with `balance`, costs of another number than the rows; no such column; or, in an indexed pipe, an
            operator before changes the positions of rows after a shuffle.
        DataError: all rows of a group of an indexed pipe were skipped; a cost is no number, or below 0.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
        >>> list(fp.from_sequence(["a", "bb", "cccc", "ddd"]).batch(2, balance=len))
        [['a', 'cccc'], ['bb', 'ddd']]
    """
    if balance is not None:
        pipe = pipe.then(Balance(size, drop_last, balance=balance, among=among))
    return pipe.then(Batch(size, drop_last, balance is not None))


@dataclass(frozen=True)
class Batch(TokenOfInput, Grouping):
    kind: ClassVar[str] = "batch"
    seeks: ClassVar[bool] = True
    moves_skipped: ClassVar[bool] = True

    size: int
    drop_last: bool = False
    is_balanced: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("size", self.size, least=1))

    def call(self) -> str | None:
        return None if self.is_balanced else call_code(self)

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        if rows is None:
            return None
        return rows // self.size if self.drop_last else -(-rows // self.size)

    def lookback(self) -> int:
        return self.size

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        return amount_of_inputs(self, stage, at, context, at.skip * self.size)

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
            batches: list[Any] = [rows[start : start + self.size] for start in range(0, len(rows), self.size)]
        else:
            starts = index_array(indices) * self.size
            places = np.minimum(starts[:, None] + np.arange(self.size), total)  # `total`: past the end, left out below
            lengths = np.minimum(total - starts, self.size)
            rows = stage.input.rows(places[places < total], context)
            ends = np.cumsum(lengths).tolist()
            batches = [take(rows, range(end - length, end)) for end, length in zip(ends, lengths.tolist(), strict=True)]
        return [_shorter_batch(stage, batch) for batch in batches] if stage.input.may_skip else batches

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if stage.input.may_skip:
            yield from _filled_batches(stage, self.size, at, context, drop_last=self.drop_last)
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
            batches, origins = _full_batches(full, self.size)
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


def _full_batches(blocks: list[Block], size: int) -> tuple[list[object], list[Origin | None] | None]:
    """Return the rows in full batches, and the origin of each batch.

    Each batch is joined by itself: whether it has columns must not depend on its neighbours in a block.
    """
    batches: list[object] = []
    parts: list[BlockRows] = []
    missing = size
    for block in blocks:
        start = 0
        while start < len(block):
            stop = min(len(block), start + missing)
            parts.append(block.rows[start:stop])  # a list is copied: its consumer may change an element
            missing -= stop - start
            start = stop
            if not missing:
                batches.append(concat(parts))
                parts, missing = [], size
    origins = join_origins(blocks)
    spans = (range(start, start + size) for start in range(0, len(batches) * size, size))
    return batches, group_origins(origins, spans)


def _shorter_batch(stage: StageView, rows: BlockRows) -> object:
    """Return the rows of a batch that were not skipped; if all were, raise a `DataError`."""
    if not has_skipped(rows):
        return rows
    parts = parted(rows)
    if not parts.skipped:  # those of the block are in other batches
        return parts.values[:]
    skips = _skips_of(parts.skipped.values())
    if not parts.places:
        raise DataError(
            f"all {parts.total} rows of a batch were skipped, the last one because of {skips[-1].error}; larger "
            "batches hide fewer good rows, and if every row fails, the function is wrong",
            at=stage.call_site,
        )
    return Skipped(skips, parts.values[:], is_row=False)


def _skips_of(skipped: Iterable[Skipped]) -> Skips:
    return tuple(skip for each in skipped for skip in each.skips)


def _filled_batches(stage: StageView, size: int, at: Cursor, context: Context, *, drop_last: bool) -> Iterator[Block]:
    """Give batches of `size` rows that were not skipped, each in a block of its own.

    A resume then begins right after a batch, however many rows failed before it.
    """
    row = at.row
    pieces: list[Block] = []
    good = 0
    for block in stage.input.blocks(Cursor.of(at.token), context):
        rest: Block | None = block
        while rest is not None:
            places = parted(rest.rows).places
            missing = size - good
            stop = places[missing - 1] + 1 if len(places) >= missing else len(rest)
            pieces.append(rest.slice(0, stop))
            good += min(missing, len(places))
            rest = rest.slice(stop, len(rest)) if stop < len(rest) else None
            if good == size:
                yield _batch(pieces, row)
                pieces, good, row = [], 0, row + 1
    if pieces and drop_last:
        rows, origins = join_blocks(pieces)
        context.leftovers[stage.name] = Block(rows, pieces[0].at, pieces[-1].end, origins)
    elif pieces:
        yield _batch(pieces, row)


def _batch(pieces: list[Block], row: int) -> Block:
    parts = [parted(piece.rows) for piece in pieces]
    values = [part.values for part in parts if part.places]  # without marks, for which tables would need a column
    batch: object = concat(values)[:]
    if skips := _skips_of(mark for part in parts for mark in part.skipped.values()):
        batch = Skipped(skips, batch, is_row=not values)
    origins = [
        piece.origins[place]
        for piece, part in zip(pieces, parts, strict=True)
        if piece.origins
        for place in part.places
    ]
    groups = group_origins(origins or None, [range(len(origins))])
    start, end = pieces[0].at, pieces[-1].end
    return Block([batch], Cursor(start.plain, 0, row), Cursor(end.plain, 0, row + 1), groups)


def unbatch(pipe: Pipe[Iterable[T]], /) -> Pipe[T]:
    """Give the rows of each group one by one, which undoes `batch`.

        [a b] [c d] [e]   ->   unbatch(): a b c d e

    Element: a row of the input's elements; the rows of a `feedpipe.Rows` stay columns. Order is the input's. Length:
    unknown; streamed. State: a position in the input and in the group.

    Raises:
        RowError: an element is not iterable.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([[1, 2], [3]]).unbatch())
        [1, 2, 3]
    """
    return pipe.then(Unbatch())


@dataclass(frozen=True)
class Unbatch(TokenOfInput):
    kind: ClassVar[str] = "unbatch"
    order: ClassVar[Order] = Order.ROW_LOCAL
    needs_positions: ClassVar[bool] = False  # type: ignore[misc]
    expands: ClassVar[bool] = True

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            for index, group in enumerate(block.rows):
                start = block.at.advance(index)
                end = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                try:
                    rows: BlockRows = group if isinstance(group, (list, Rows)) else list(group)  # type: ignore[call-overload]
                except Exception as error:
                    failure = stage.failed(error, start, context)
                    raise failure from failure.__cause__
                if rows:
                    first, row = row, row + len(rows)
                    origins = block.origins and _origins(block.origins[index], len(rows))
                    whole = Block(rows, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)
                    yield from split_block(whole, block_size)


def _origins(group: Origin | None, count: int) -> list[Origin | None]:
    """Return the origin of each of `count` rows of a group."""
    rows: list[Origin | None] = [] if group is None else [*group.rows]
    return rows if len(rows) == count else [group] * count
