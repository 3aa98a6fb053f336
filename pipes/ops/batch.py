"""`batch` and `unbatch`: groups of `size` rows, and the rows of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block, group_origins, has_skipped, join_origins, parted, split_block
from ..core.checks import check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Amount, Grouping, Input, Order, Past, StageView, TokenOfInput, amount_of_inputs
from ..core.origins import Origins
from ..core.rows import BlockRows, Indices, Rows, concat, index_array, take
from ..core.skips import Skipped, Skips
from ..core.taken import Taken
from ..errors import ArgumentError, DataError, Origin
from ._schedule import NEVER, check_stages, edges_in_words, stages_from, stages_in_shard
from .balance import Balance
from .group_by import leave_over

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def batch(
    pipe: Pipe[T],
    /,
    size: int | Mapping[int, int],
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

    **Ramps.** `batch({0: 32, 10_000: 64})` makes batches of 64 rows from the first one on that begins at row 10,000 of
    a pass or later. Rows are those of all ranks together, as in a schedule of `mix`, and with `steps=` of a loader the
    ramp goes on over its epochs. Of a streamed pipe, each shard follows the ramp by its part of the rows.

    **Equal work.** In a step, all ranks wait for the one with the costliest batch. With `balance`, the rows of each
    `size * among` are put into `among` batches that cost about the same, so that the ranks of a step do the same work
    if their number divides `among`. A batch differs by 1 % or less, unless a single row is too costly for that;
    `explain()` says by how much, and `gather_report` has the cost of each rank. The order depends on that of the rows
    alone, so shuffle before. The costs of an indexed pipe are read once, before the first row, in the order before
    shuffles, with draws as in epoch 0; 8 bytes are kept for each row. A streamed pipe is balanced within each shard, so
    that ranks are equal only on average, and a resume reads one group again.

    Args:
        size: rows in each group; or a dict that maps the row from which on a size holds to the size, from row 0 on.
        drop_last: leave out a last group of fewer rows. The shards of a rank together leave out only one such group.
        balance: the cost of a row: a column of numbers, or of lists, arrays or text, whose lengths count; a function of
            a row that returns a number; or, for an indexed pipe, an array with a number for each row, in the order
            before shuffles.
        among: the batches to balance at a time.

    Rows that `on_error` skips are in no group: groups of an indexed pipe keep their number and are shorter, those of a
    streamed pipe are filled up.

    Raises:
        ArgumentError: `size` or `among` is below 1, or a cost of an array is below 0; a ramp has no row 0, more than
            65,536 stages, or a `balance`.
        PlanError: with `balance`, costs of another number than the rows; no such column; or, in an indexed pipe, an
            operator before changes the positions of rows after a shuffle.
        DataError: all rows of a group of an indexed pipe were skipped; a cost is no number, or below 0.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
        >>> list(fp.from_sequence(range(9)).batch({0: 2, 3: 4}))
        [[0, 1], [2, 3], [4, 5, 6, 7], [8]]
        >>> list(fp.from_sequence(["a", "bb", "cccc", "ddd"]).batch(2, balance=len))
        [['a', 'cccc'], ['bb', 'ddd']]
    """
    if isinstance(size, Mapping):
        if balance is not None:
            raise ArgumentError("`balance` needs batches of one size; give `size` a number")
        return pipe.then(Batch(size, drop_last))
    if balance is not None:
        pipe = pipe.then(Balance(size, drop_last, balance=balance, among=among))
    return pipe.then(Batch(size, drop_last, is_balanced=balance is not None))


@dataclass(frozen=True, eq=False, repr=False)
class Batch(TokenOfInput, Grouping):
    kind: ClassVar[str] = "batch"
    seeks: ClassVar[bool] = True
    moves_skipped: ClassVar[bool] = True
    edits: ClassVar[Literal["groups", "order"] | None] = "groups"
    blind: ClassVar[bool] = True

    size: int | Mapping[int, int]
    drop_last: bool = False
    is_balanced: bool = field(default=False, repr=False, compare=False)
    bounds: EvenBounds | RampBounds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.size, Mapping):
            sizes = check_stages("size", "sizes", self.size, lambda name, size: check_int(name, size, least=1))
            bounds: EvenBounds | RampBounds = RampBounds(sizes)
            object.__setattr__(self, "size", sizes)
        else:
            bounds = EvenBounds(check_int("size", self.size, least=1))
            object.__setattr__(self, "size", bounds.size)
        object.__setattr__(self, "bounds", bounds)

    def call(self) -> str | None:
        return None if self.is_balanced else call_code(self)

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        if rows is None:
            return None
        full = self.bounds.full(rows)
        return full if self.drop_last or self.bounds.begin(full) == rows else full + 1

    def lookback(self) -> int:
        return max(self.size.values()) if isinstance(self.size, Mapping) else self.size

    def remark(self, stage: StageView) -> str | None:
        if not isinstance(self.size, Mapping) or len(self.size) == 1:
            return None
        return f"its size changes at {edges_in_words(self.size)} of each pass, on all ranks together"

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        return amount_of_inputs(self, stage, at, context, self.bounds.between(at.row, at.position))

    def in_shard(self, shards: int) -> Batch:
        return replace(self, size=stages_in_shard(self.size, shards)) if isinstance(self.size, Mapping) else self

    def from_row(self, row: int) -> Batch:
        return replace(self, size=stages_from(self.size, row)) if isinstance(self.size, Mapping) else self

    def identity(self) -> Json:
        return {"size": {str(row): size for row, size in self.size.items()}} if isinstance(self.size, Mapping) else None

    @classmethod
    def run_length(cls, past: Past) -> int | None:
        return past.number("size")

    @classmethod
    def inputs_at(cls, past: Past, at: Cursor) -> Sequence[Json] | None:
        bounds = cls._past_bounds(past)
        if bounds is None:
            return super().inputs_at(past, at)
        return [Cursor.of(at.token).advance(bounds.between(at.row, at.position)).plain]

    @classmethod
    def inputs_taken(cls, past: Past, taken: Taken) -> Sequence[Taken] | None:
        bounds = cls._past_bounds(past)
        if bounds is None:
            return super().inputs_taken(past, taken)
        return [taken.runs(lambda batch: int(bounds.begin(batch)))]

    @staticmethod
    def _past_bounds(past: Past) -> RampBounds | None:
        """The bounds of the batches of a ramp, if it is known and it was one."""
        sizes = past.facts.get("size")
        if not isinstance(sizes, dict):
            return None
        ramp = Batch({int(row): cast("int", size) for row, size in sizes.items()})
        bounds = ramp.in_shard(past.shards).from_row(past.given).bounds
        return bounds if isinstance(bounds, RampBounds) else None

    def dropping(self) -> Batch:
        return replace(self, drop_last=True)

    def left_over(self, rows: int) -> int:
        return rows - int(self.bounds.begin(self.bounds.full(rows)))

    def after(self, rows: int) -> Batch:
        if not isinstance(self.size, Mapping):
            return self
        batch = self.bounds.full(rows)
        return replace(self, size=self.bounds.between(batch, batch + 1))

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        first, stop = int(self.bounds.begin(index)), int(self.bounds.begin(index + 1))
        return ((stage.input, row, context) for row in range(first, min(stop, stage.input.length or 0)))

    def traced(
        self, stage: StageView, indices: Indices, context: Context
    ) -> Iterator[tuple[int, Indices, Indices | None, Context]]:
        numbers = index_array(indices)
        firsts = np.asarray(self.bounds.begin(numbers))
        sizes = np.minimum(self.bounds.begin(numbers + 1), stage.input.length or 0) - firsts
        owners = np.repeat(np.arange(len(numbers)), sizes)
        yield 0, firsts[owners] + np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners], owners, context

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        total = stage.input.length
        assert total is not None, "an indexed pipe knows its length"
        bounds = self.bounds
        if isinstance(indices, range) and indices.step == 1:
            first = int(bounds.begin(indices.start))
            rows = stage.input.rows(range(first, min(total, int(bounds.begin(indices.stop)))), context)
            batches: list[Any] = bounds.cut(rows, indices)
        else:
            numbers = index_array(indices)
            starts = bounds.begin(numbers)
            lengths = np.minimum(bounds.begin(numbers + 1), total) - starts
            within = np.arange(lengths.max(initial=0))
            rows = stage.input.rows((starts[:, None] + within)[within < lengths[:, None]], context)
            ends = np.cumsum(lengths).tolist()
            batches = [take(rows, range(end - length, end)) for end, length in zip(ends, lengths.tolist(), strict=True)]
        return [_shorter_batch(stage, batch) for batch in batches] if stage.input.may_skip else batches

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.position
        pieces: list[Block] = []  # of the batch that is not complete, and its rows that were not skipped
        good, size = 0, self.bounds.between(row, row + 1)
        for block in stage.input.blocks(Cursor.of(at.token).advance(self.bounds.between(at.row, row)), context):
            rest = [block]
            while rest:
                block = rest.pop()
                parts = parted(block.rows)
                output: list[Block] = []
                if not pieces and not parts.skipped and len(block) >= size:
                    sizes, left = self.bounds.sizes(row, len(block))
                    stop = len(block) - left
                    first, row = row, row + len(sizes)
                    batches: list[Any] = self.bounds.cut(parts.values, range(first, row))[: len(sizes)]
                    spans = (range(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True))
                    end = block.at.advance(stop) if left else block.end
                    origins = group_origins(block.origins, spans)
                    output = [Block(batches, Cursor(block.at.plain, 0, first), Cursor(end.plain, 0, row), origins)]
                    size = self.bounds.between(row, row + 1)
                    del batches
                else:  # a batch by itself, so that no cursor skips rows of two blocks, or rows that were skipped
                    missing = size - good
                    stop = parts.places[missing - 1] + 1 if len(parts.places) >= missing else len(block)
                    pieces.append(block.slice(0, stop))
                    good += min(missing, len(parts.places))
                    if good == size:
                        output = [_batch(pieces, row)]
                        pieces, good, row = [], 0, row + 1
                        size = self.bounds.between(row, row + 1)
                if stop < len(block):
                    rest = [block.slice(stop, len(block))]
                del block, parts  # only the consumer holds them now
                if output:
                    yield output.pop()
        if pieces and self.drop_last:
            leave_over(pieces, stage, context)
        elif pieces:
            yield _batch(pieces, row)


N = TypeVar("N", int, npt.NDArray[np.int64])


@dataclass(frozen=True)
class EvenBounds:
    """The bounds of batches of one size."""

    size: int

    def begin(self, batch: N) -> N:
        """The first row of a batch."""
        return batch * self.size

    def between(self, first: int, stop: int) -> int:
        """The number of rows of the batches `first` to `stop`."""
        return (stop - first) * self.size

    def full(self, rows: int) -> int:
        """The number of full batches of the first `rows` rows."""
        return rows // self.size

    def sizes(self, batch: int, rows: int) -> tuple[Sequence[int], int]:
        """The sizes of the full batches among `rows` rows from a batch on, and the rows that are left."""
        full, rest = divmod(rows, self.size)
        return [self.size] * full, rest

    def cut(self, rows: BlockRows, batches: range) -> list[BlockRows]:
        """The rows of neighbouring batches, batch by batch."""
        return [rows[start : start + self.size] for start in range(0, len(rows), self.size)]


class RampBounds:
    """The bounds of batches whose size changes with the first one that begins at given rows or later."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        row = batch = 0
        stages: list[tuple[int, int, int]] = []  # of each: its first row, its first batch, its size
        for size, edge in zip(sizes.values(), [*list(sizes)[1:], 0], strict=True):
            size = min(size, NEVER // 4)  # that of a few batches fits in 63 bits
            stages.append((row, batch, size))
            if (before_edge := min(edge, NEVER) - row) > 0:
                count = -(-before_edge // size)
                row, batch = min(row + count * size, NEVER), batch + count
        self._rows, self._batches, self._sizes = np.array(stages, np.int64).T

    def begin(self, batch: N) -> N:
        stage = np.searchsorted(self._batches, batch, "right") - 1
        rows: N = self._rows[stage] + (batch - self._batches[stage]) * self._sizes[stage]
        return rows

    def between(self, first: int, stop: int) -> int:
        return int(self.begin(stop) - self.begin(first))

    def full(self, rows: int) -> int:
        stage = int(np.searchsorted(self._rows, rows, "right")) - 1
        return int(self._batches[stage] + (rows - self._rows[stage]) // self._sizes[stage])

    def sizes(self, batch: int, rows: int) -> tuple[Sequence[int], int]:
        first = int(self.begin(batch))
        stop = self.full(first + rows)
        bounds = self.begin(np.arange(batch, stop + 1))
        return np.diff(bounds).tolist(), first + rows - int(bounds[-1])

    def cut(self, rows: BlockRows, batches: range) -> list[BlockRows]:
        bounds = self.begin(np.arange(batches.start, batches.stop + 1))
        return [rows[start:stop] for start, stop in pairwise((bounds - bounds[0]).tolist())]


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


def _batch(pieces: list[Block], row: int) -> Block:
    parts = [parted(piece.rows) for piece in pieces]
    values = [part.values for part in parts if part.places]  # without marks, for which tables would need a column
    batch: object = concat(values)[:]
    if skips := _skips_of(mark for part in parts for mark in part.skipped.values()):
        batch = Skipped(skips, batch, is_row=not values)
    if (origins := join_origins(pieces)) is not None:
        starts = accumulate(map(len, pieces), initial=0)
        places = [start + place for start, part in zip(starts, parts, strict=False) for place in part.places]
        origins = origins.grouped([places])
    start, end = pieces[0].at, pieces[-1].end
    return Block([batch], Cursor(start.plain, 0, row), Cursor(end.plain, 0, row + 1), origins)


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


@dataclass(frozen=True, eq=False, repr=False)
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
                    origins = block.origins and _origins(block.origins, index, len(rows))
                    whole = Block(rows, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)
                    yield from split_block(whole, block_size)


def _origins(groups: Origins, index: int, count: int) -> Origins:
    """Return the origins of the `count` rows of a group."""
    group = groups[index]
    rows: list[Origin | None] = [] if group is None else [*group.rows]
    each = groups.select(np.full(count, index)).counted(np.arange(count) == 0)
    return replace(each, rows=rows) if each.rows is not None and len(rows) == count else each
