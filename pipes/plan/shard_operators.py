"""The operators that only a plan puts into a graph: they give one shard its part."""

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
from ..core.rows import BlockRows, Indices, concat, take
from ..engine.permutation import Permutation
from ..engine.stage import Stage
from .shared_reading import shared_rows


@dataclass(frozen=True)
class IndexedShard(Operator):
    """The part of shard `shard` of `shards` of an indexed input, from row `start` on.

    The input is cut into units of `unit` rows; the shards take the units in turn, in a random order where `permuted`, a
    last unit of fewer rows always last.
    """

    kind: ClassVar[str] = "deal"
    order: ClassVar[Order] = Order.GLOBAL

    shards: int
    shard: int
    unit: int = 1
    permuted: bool = False
    start: int = 0

    def length(self, stage: StageView) -> int:
        rows = self._total(stage)
        units = -(-rows // self.unit)
        mine = len(range(self.shard, units, self.shards))
        short = -rows % self.unit
        has_last = units > 0 and (units - 1) % self.shards == self.shard
        return mine * self.unit - (short if has_last else 0)

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        place = self._places(stage, np.array([index]), context)
        yield stage.input, int(place[0]), context.unsharded()

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        whole = context.unsharded()
        if not isinstance(indices, range):
            return stage.input.rows(self._places(stage, indices, context), whole)
        if self.unit == 1 and not self.permuted:
            first = self.start + self.shard
            strided = range(
                first + indices.start * self.shards, first + indices.stop * self.shards, indices.step * self.shards
            )
            return stage.input.rows(strided, whole)
        if self.unit == 1 or indices.step != 1:
            return stage.input.rows(self._places(stage, np.asarray(indices), context), whole)
        # Unit by unit, so that storage can slice.
        cuts = range(indices.start - indices.start % self.unit, indices.stop, self.unit)
        firsts = self._places(stage, np.arange(cuts.start, cuts.stop, cuts.step), context).tolist()
        parts: list[BlockRows] = []
        for first, cut in zip(firsts, cuts, strict=True):
            low, high = max(cut, indices.start), min(cut + self.unit, indices.stop)
            parts.append(stage.input.rows(range(first + low - cut, first + high - cut), whole))
        return concat(parts) if parts else []

    def _places(self, stage: StageView, indices: npt.NDArray[np.int64], context: Context) -> npt.NDArray[np.int64]:
        units, inside = np.divmod(indices, self.unit)
        units = units * self.shards + self.shard
        full = self._total(stage) // self.unit
        if self.permuted and full:
            order = self._order(stage, full, context)
            units = np.where(units < full, order[np.minimum(units, full - 1)], units)
        return self.start + units * self.unit + inside

    def _order(self, stage: StageView, units: int, context: Context) -> Permutation:
        whole = context.unsharded()
        made_for = ("deal", self.shards, whole.seed, whole.epoch, whole.rounds)
        # Of the input, so that all shards share the permutation.
        return cast("Stage", stage.input).memo(made_for, lambda: Permutation(whole.key(stage.name), units))

    def _total(self, stage: StageView) -> int:
        length = stage.input.length
        assert length is not None, "an indexed pipe knows its length"
        return max(0, length - self.start)


@dataclass(frozen=True)
class StreamedShard(Operator):
    """The rows of a streamed input that belong to shard `shard` of `shards`.

    These are dealt in turn to the shards of a group, which are those with the same number modulo `groups`; other groups
    have other inputs. The shards of one process read the input together, once; where it is `dispatched`, one process
    reads for all.
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
        wanted = at.position * members + member  # of the input's rows, the next one for this shard
        source = Cursor.of(at.token)
        source = source.advance(wanted - source.position)
        read = cast("Stage", stage.input)
        share = RowsRequest(read.name, source.plain, member, members, context.rounds, context.tracing.origins)
        if self.dispatched and context.process.dispatched is not None:
            return context.process.dispatched(share)
        here = context.process.shards if context.shard == self.shard else (self.shard,)
        others = [other // self.groups for other in here if other % self.groups == group]
        return shared_rows(read, share, others, context)


@dataclass(frozen=True)
class Leftover(Operator):
    """What a shard left over when it ended: its rows from `cursor` on, `count` of them where that is known.

    `held` are the rows themselves, where this process still has them: then nothing is read again.
    """

    kind: ClassVar[str] = "leftover"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    shard: int
    cursor: Json = None
    count: int | None = None
    held: BlockRows | None = None

    def length(self, stage: StageView) -> int | None:
        return self.count

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        beginning = Cursor.of(self.cursor).position
        source = Cursor.of(at.token if at.token is not None else self.cursor)
        row = at.position
        if self.held is not None and at.token is None:
            if row < len(self.held):
                rest = take(self.held, range(row, len(self.held)))
                yield Block(rest, START.advance(row), START.advance(len(self.held)))
            return
        inner = context.in_shard(self.shard)
        for block in stage.input.blocks(source.advance(beginning + row - source.position), inner):
            here = Cursor(block.at.plain, 0, block.at.position - beginning)
            yield Block(block.rows, here, Cursor(block.end.plain, 0, here.row + len(block)), block.origins)
