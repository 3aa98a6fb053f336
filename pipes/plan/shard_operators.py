"""Operators for the rows of one shard, by position or row by row, and for its leftover rows. Only a plan adds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block
from ..core.context import Context, RowShare
from ..core.cursor import START, Cursor, Json
from ..core.meter import Meter
from ..core.operator import Input, Operator, Order, StageView
from ..core.rows import BlockRows, Indices, concat, index_array, take
from ..engine.permutation import Permutation
from ..engine.stage import Stage
from .parts import Line
from .shared_reading import request_of, shared_rows

N = TypeVar("N", int, npt.NDArray[np.int64])

NEIGHBOURS = 16
"""Rows that a shard takes in turn, if their order stays that of the source."""
RANGES, MAX_RANGE_ROWS = 1024, 1024
"""Into how many ranges a random order divides the rows, and the most rows of one of them."""
MIN_SLICED_ROWS = 64
"""Shorter ranges are read by the positions of their rows: a slice costs more."""


class PlacedShard(Operator, ABC):
    """The base: a shard has the rows of an indexed input at some places, which can be computed."""

    kind: ClassVar[str] = "deal"
    order: ClassVar[Order] = Order.GLOBAL
    stream: str | None = None
    """The number of the stream, for the meter of a run."""

    def moves_skipped(self) -> bool:
        return True

    @abstractmethod
    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        """The positions in the input of the rows at `indices` of the shard."""

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, int(self.places(stage, range(index, index + 1), context)[0]), context.unsharded()

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if context.meter is not None and self.stream is not None and len(indices):
            last = indices[-1] if isinstance(indices, range) else indices.max()
            context.meter.note(self.stream, context.rounds, 0, int(last) + 1)
        return self.read(stage, indices, context)

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices` of the shard."""
        return stage.input.rows(self.places(stage, indices, context), context.unsharded())


@dataclass(frozen=True)
class IndexedShard(PlacedShard):
    """Each `shards`-th row of an indexed input, from row `start` + `shard` on."""

    shards: int
    shard: int
    start: int

    def length(self, stage: StageView) -> int:
        return len(range(self.start + self.shard, _row_count(stage), self.shards))

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        first = self.start + self.shard
        if isinstance(indices, range):
            return range(
                first + indices.start * self.shards, first + indices.stop * self.shards, indices.step * self.shards
            )
        return first + indices * self.shards


def elements_left(taken: int, beyond: Sequence[range]) -> tuple[npt.NDArray[np.int64], int]:
    """The elements of an indexed pipe that are left if some are taken out of turn.

    Args:
        taken: how many are taken, these included.
        beyond: the elements that are taken although one before them is not.

    Returns:
        The elements that are left before the last of `beyond`, and the first element behind it.
    """
    first = taken - sum(map(len, beyond))
    stop = max((elements[-1] + 1 for elements in beyond), default=first)
    left = np.ones(stop - first, np.bool_)
    for elements in beyond:
        left[elements.start - first : elements.stop - first : elements.step] = False
    return np.flatnonzero(left) + first, stop


def take_left(taken: int, beyond: Sequence[range], count: int) -> tuple[int, tuple[range, ...]]:
    """`taken` and `beyond` after `count` more elements, in order."""
    left, _ = elements_left(taken, beyond)
    if count >= len(left):
        return taken + count, ()
    first = int(left[count])
    later = (elements[bisect_left(elements, first) :] for elements in beyond)
    return taken + count, tuple(elements for elements in later if elements)


@dataclass(frozen=True)
class RemainingShard(PlacedShard):
    """Each `shards`-th of the elements of an indexed input that are left, if some are taken out of turn.

    Attributes:
        taken, beyond: as `elements_left` describes them.
    """

    shards: int
    shard: int
    taken: int
    beyond: tuple[range, ...]

    def length(self, stage: StageView) -> int:
        return len(range(self.taken + self.shard, _row_count(stage), self.shards))

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        left, behind = cast("Stage", stage.input).memo(
            ("left", self.taken, self.beyond), lambda: elements_left(self.taken, self.beyond)
        )
        numbers = self.shard + index_array(indices) * self.shards
        if not len(left):
            return numbers + behind
        return np.where(numbers < len(left), left[np.minimum(numbers, len(left) - 1)], numbers - len(left) + behind)


@dataclass(frozen=True)
class RowsShard(PlacedShard):
    """The base: one of `shards` shards that divide the rows of an indexed input."""

    shards: int
    shard: int
    stream: str | None = "0"

    @staticmethod
    @abstractmethod
    def share(rows: int, shards: int, shard: N) -> N:
        """How many of `rows` rows a shard has."""

    def length(self, stage: StageView) -> int:
        return self.share(_row_count(stage), self.shards, self.shard)

    def line(self, source: Input) -> Line:
        """The rows of `source` by shard."""
        sizes = self.share(source.length or 0, self.shards, np.arange(self.shards))
        return Line(np.concatenate([[0], np.cumsum(sizes)]))


@dataclass(frozen=True)
class NeighboursShard(RowsShard):
    """Ranges of neighbouring rows of an indexed input, in the order of the input.

    The shards take ranges of `NEIGHBOURS` rows in turn, and one range of equal length each of what is left. Single rows
    in turn would meet data that repeats: of numbers behind a filter for odd ones, one of two shards would get all.
    """

    @staticmethod
    def share(rows: int, shards: int, shard: N) -> N:
        rounds = _rounds(rows, shards)
        return rounds * NEIGHBOURS + PermutedShard.share(rows - rounds * NEIGHBOURS * shards, shards, shard)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        rounds, left = self._ranges(stage)
        in_rounds = rounds * NEIGHBOURS
        if isinstance(indices, range) and indices.step == 1 and indices.start >= in_rounds:
            return range(left + indices.start - in_rounds, left + indices.stop - in_rounds)
        at = index_array(indices)
        turns, inside = np.divmod(at, NEIGHBOURS)
        return np.where(at < in_rounds, (turns * self.shards + self.shard) * NEIGHBOURS + inside, left + at - in_rounds)

    def _ranges(self, stage: StageView) -> tuple[int, int]:
        """How many ranges the shard has, and its first row of those that are left."""
        rows = _row_count(stage)
        rounds = _rounds(rows, self.shards)
        in_rounds = rounds * NEIGHBOURS * self.shards
        return rounds, in_rounds + _stretch(rows - in_rounds, self.shards, self.shard)


@dataclass(frozen=True)
class PermutedShard(RowsShard):
    """Ranges of neighbouring rows of an indexed input, in a random order.

    The ranges are put in the order of the pass, and each shard has one stretch of all rows. The length of a range
    depends on the number of rows alone; a last range of fewer rows stays last.
    """

    @staticmethod
    def share(rows: int, shards: int, shard: N) -> N:
        return rows * (shard + 1) // shards - rows * shard // shards

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        rows = _row_count(stage)
        size = _range_size(rows)
        places = index_array(indices) + _stretch(rows, self.shards, self.shard)
        full = rows // size
        if not full:
            return places
        ranges, inside = np.divmod(places, size)
        order = self._order(stage, full, context)
        return np.where(ranges < full, order[np.minimum(ranges, full - 1)], ranges) * size + inside

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        size = _range_size(_row_count(stage))
        if not isinstance(indices, range) or indices.step != 1 or size < MIN_SLICED_ROWS:
            return super().read(stage, indices, context)
        # Range by range, so that the source can slice.
        begin = _stretch(_row_count(stage), self.shards, self.shard)
        first, stop = begin + indices.start, begin + indices.stop
        whole = context.unsharded()
        if first >= stop:
            return stage.input.rows(range(0), whole)
        cuts = np.array([first, *range(first - first % size + size, stop, size), stop])
        starts = index_array(self.places(stage, cuts[:-1] - begin, context)).tolist()
        lengths = np.diff(cuts).tolist()
        return concat([stage.input.rows(range(s, s + n), whole) for s, n in zip(starts, lengths, strict=True)])

    def _order(self, stage: StageView, ranges: int, context: Context) -> Permutation:
        whole = context.unsharded()
        key = ("deal", whole.seed, whole.epoch, whole.rounds)
        # The input keeps it, so that all shards share it.
        return cast("Stage", stage.input).memo(key, lambda: Permutation(whole.key(stage.name), ranges))


def _row_count(stage: StageView) -> int:
    """The number of rows of an indexed input."""
    rows = stage.input.length
    assert rows is not None, "an indexed pipe knows its length"
    return rows


def _range_size(rows: int) -> int:
    """The length of the ranges that a random order divides the rows into."""
    return min(max(rows // RANGES, 1), MAX_RANGE_ROWS)


def _rounds(rows: int, shards: int) -> int:
    """How many ranges of neighbours each shard has; a single shard reads all rows in one stretch."""
    return rows // (NEIGHBOURS * shards) if shards > 1 else 0


def _stretch(rows: int, shards: int, shard: int) -> int:
    """The first row of a shard, if `rows` rows are cut into `shards` stretches of equal length."""
    return rows * shard // shards


@dataclass(frozen=True)
class StreamedShard(Operator):
    """The rows of a streamed input that belong to shard `shard` of `shards`, which take rows in turn.

    The shards of one process read the input together, once. If it is `dispatched`, one process reads it for all.
    """

    kind: ClassVar[str] = "deal_rows"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    shards: int
    shard: int
    dispatched: bool = False
    stream: str = "0"

    def moves_skipped(self) -> bool:
        return True

    @staticmethod
    def share(rows: int, shards: int, shard: N) -> N:
        """How many of `rows` rows a shard has."""
        return (rows - shard + shards - 1) // shards

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        return None if rows is None else self.share(rows, self.shards, self.shard)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, at.token

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source = cast("Stage", stage.input)
        share = share_of(self.shard, self.shards)
        if self.dispatched and context.process.dispatched is not None:
            blocks = context.process.dispatched(request_of(source, at, share, context))
        else:
            together = context.process.shards if context.shard == self.shard else ()
            others = [share_of(shard, self.shards) for shard in together]
            blocks = shared_rows(source, at, share, others, context.unsharded())
        return blocks if context.meter is None else _noted(blocks, self.stream, context, context.meter)

    def line(self, source: Input) -> None:
        """The number of rows is not known."""


def _noted(blocks: Iterator[Block], stream: str, context: Context, meter: Meter) -> Iterator[Block]:
    for block in blocks:
        meter.note(stream, context.rounds, 0, block.end.position, block.end.token)
        output = [block]
        del block  # only the consumer holds it now
        yield output.pop()


def share_of(shard: int, shards: int) -> RowShare:
    """The rows of a shard, if all shards take rows in turn."""
    return RowShare(shard, shard + 1, shards)


@dataclass(frozen=True)
class Leftover(Operator):
    """The rows that a shard left over when it ended.

    Attributes:
        shard: the shard.
        cursor: the cursor of the first of them, plain.
        leftover_rows: the rows themselves, if this process still has them; else they are read again.
    """

    kind: ClassVar[str] = "leftover"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    shard: int
    cursor: Json = None
    leftover_rows: BlockRows | None = None

    def moves_skipped(self) -> bool:
        return True

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, at.token if at.token is not None else self.cursor

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        first = Cursor.of(self.cursor).position
        source = Cursor.of(at.token if at.token is not None else self.cursor)
        row = at.position
        if self.leftover_rows is not None and at.token is None:
            if row < len(self.leftover_rows):
                rest = take(self.leftover_rows, range(row, len(self.leftover_rows)))
                yield Block(rest, START.advance(row), START.advance(len(self.leftover_rows)))
            return
        inner = context.in_shard(self.shard)
        for block in stage.input.blocks(source.advance(first + row - source.position), inner):
            here = Cursor(block.at.plain, 0, block.at.position - first)
            yield Block(block.rows, here, Cursor(block.end.plain, 0, here.row + len(block)), block.origins)
