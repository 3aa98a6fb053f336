"""`IndexedShard`, `StreamedShard`, `Leftover`: operators for the rows of one shard. Only a plan adds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block
from ..core.context import Context, RowsRequest
from ..core.cursor import START, Cursor, Json
from ..core.operator import Input, Operator, Order, StageView
from ..core.rows import BlockRows, Indices, concat, index_array, take
from ..engine.permutation import Permutation
from ..engine.stage import Stage
from .shared_reading import shared_rows


@dataclass(frozen=True)
class IndexedShard(Operator):
    """The rows of an indexed input, from row `start` on, that belong to shard `shard` of `shards`.

    The input is cut into ranges of `size` rows, and the shards take ranges in turn. If `permuted`, the ranges come in a
    random order; a last range of fewer rows stays last.
    """

    kind: ClassVar[str] = "deal"
    order: ClassVar[Order] = Order.GLOBAL

    shards: int
    shard: int
    size: int = 1
    permuted: bool = False
    start: int = 0

    def length(self, stage: StageView) -> int:
        rows = self._total(stage)
        ranges = -(-rows // self.size)
        count = len(range(self.shard, ranges, self.shards))
        missing = -rows % self.size  # of the last range
        has_last = ranges > 0 and (ranges - 1) % self.shards == self.shard
        return count * self.size - (missing if has_last else 0)

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        place = self._places(stage, np.array([index]), context)
        yield stage.input, int(place[0]), context.unsharded()

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        whole = context.unsharded()
        if not isinstance(indices, range):
            return stage.input.rows(self._places(stage, indices, context), whole)
        if self.size == 1 and not self.permuted:
            first = self.start + self.shard
            strided = range(
                first + indices.start * self.shards, first + indices.stop * self.shards, indices.step * self.shards
            )
            return stage.input.rows(strided, whole)
        if self.size == 1 or indices.step != 1:
            return stage.input.rows(self._places(stage, index_array(indices), context), whole)
        # Range by range, so that the source can slice.
        cuts = range(indices.start - indices.start % self.size, indices.stop, self.size)
        firsts = self._places(stage, np.arange(cuts.start, cuts.stop, cuts.step), context).tolist()
        parts: list[BlockRows] = []
        for first, cut in zip(firsts, cuts, strict=True):
            low, high = max(cut, indices.start), min(cut + self.size, indices.stop)
            parts.append(stage.input.rows(range(first + low - cut, first + high - cut), whole))
        return concat(parts) if parts else stage.input.rows(range(0), whole)

    def _places(self, stage: StageView, indices: npt.NDArray[np.int64], context: Context) -> npt.NDArray[np.int64]:
        ranges, inside = np.divmod(indices, self.size)
        ranges = ranges * self.shards + self.shard
        full = self._total(stage) // self.size
        if self.permuted and full:
            order = self._order(stage, full, context)
            ranges = np.where(ranges < full, order[np.minimum(ranges, full - 1)], ranges)
        return self.start + ranges * self.size + inside

    def _order(self, stage: StageView, ranges: int, context: Context) -> Permutation:
        whole = context.unsharded()
        key = ("deal", self.shards, whole.seed, whole.epoch, whole.rounds)
        # The input keeps it, so that all shards share it.
        return cast("Stage", stage.input).memo(key, lambda: Permutation(whole.key(stage.name), ranges))

    def _total(self, stage: StageView) -> int:
        length = stage.input.length
        assert length is not None, "an indexed pipe knows its length"
        return max(0, length - self.start)


@dataclass(frozen=True)
class StreamedShard(Operator):
    """The rows of a streamed input that belong to shard `shard` of `shards`.

    The shards of a group, which are equal modulo `groups`, take rows in turn; other groups have other inputs. The
    shards of one process read the input together, once. If it is `dispatched`, one process reads it for all.
    """

    kind: ClassVar[str] = "deal_rows"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    shards: int
    shard: int
    groups: int = 1
    dispatched: bool = False

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        return None if rows is None else len(range(self.shard // self.groups, rows, self.shards // self.groups))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        group, member = self.shard % self.groups, self.shard // self.groups
        members = self.shards // self.groups
        position = at.position * members + member  # in the input, of the next row for this shard
        cursor = Cursor.of(at.token)
        cursor = cursor.advance(position - cursor.position)
        source = cast("Stage", stage.input)
        request = RowsRequest(source.name, cursor.plain, member, members, context.rounds, context.tracing.origins)
        if self.dispatched and context.process.dispatched is not None:
            return context.process.dispatched(request)
        shards = context.process.shards if context.shard == self.shard else (self.shard,)
        others = [other // self.groups for other in shards if other % self.groups == group]
        return shared_rows(source, request, others, context)


@dataclass(frozen=True)
class Leftover(Operator):
    """The rows that a shard left over when it ended.

    Attributes:
        shard: the shard.
        cursor: the cursor of the first of them, plain.
        count: how many there are, if that is known.
        leftover_rows: the rows themselves, if this process still has them; else they are read again.
    """

    kind: ClassVar[str] = "leftover"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    shard: int
    cursor: Json = None
    count: int | None = None
    leftover_rows: BlockRows | None = None

    def length(self, stage: StageView) -> int | None:
        return self.count

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
