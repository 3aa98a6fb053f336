"""The operators that only a plan puts into a graph: they give one shard its part."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..block import Block, close
from ..context import Context, Share
from ..cursor import START, Cursor, Json
from ..errors import Origin
from ..pace import Clock
from ..permutation import Permutation
from ..rows import Indices, RowList, concat, take
from ..stage import Stage
from ..traits import Operator


@dataclass(frozen=True)
class Deal(Operator):
    """The part of shard `shard` of `shards` of an indexed input, from row `start` on.

    The input is cut into units of `unit` rows; the shards take the units in turn, in a random order where `permuted`, a
    last unit of fewer rows always last.
    """

    kind: ClassVar[str] = "deal"

    shards: int
    shard: int
    unit: int = 1
    permuted: bool = False
    start: int = 0

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return True

    def length(self, stage: Stage) -> int:
        rows = self._total(stage)
        units = -(-rows // self.unit)
        mine = len(range(self.shard, units, self.shards))
        short = -rows % self.unit
        has_last = units > 0 and (units - 1) % self.shards == self.shard
        return mine * self.unit - (short if has_last else 0)

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        place = self._places(stage, np.array([index]), context)
        return stage.input.origin(int(place[0]), context.whole())

    def rows(self, stage: Stage, indices: Indices, context: Context) -> RowList:
        whole = context.whole()
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
        parts: list[RowList] = []
        for first, cut in zip(firsts, cuts, strict=True):
            low, high = max(cut, indices.start), min(cut + self.unit, indices.stop)
            parts.append(stage.input.rows(range(first + low - cut, first + high - cut), whole))
        return concat(parts) if parts else []

    def _places(self, stage: Stage, indices: npt.NDArray[np.int64], context: Context) -> npt.NDArray[np.int64]:
        units, inside = np.divmod(indices, self.unit)
        units = units * self.shards + self.shard
        full = self._total(stage) // self.unit
        if self.permuted and full:
            order = self._order(stage, full, context)
            units = np.where(units < full, order[np.minimum(units, full - 1)], units)
        return self.start + units * self.unit + inside

    def _order(self, stage: Stage, units: int, context: Context) -> Permutation:
        whole = context.whole()
        made_for = ("deal", self.shards, whole.seed, whole.epoch, whole.rounds)
        return stage.input.memo(made_for, lambda: Permutation(whole.key(stage.name), units))

    def _total(self, stage: Stage) -> int:
        length = stage.input.length
        assert length is not None, "an indexed pipe knows its length"
        return max(0, length - self.start)


@dataclass(frozen=True)
class DealRows(Operator):
    """The rows of a streamed input that belong to shard `shard` of `shards`.

    These are dealt in turn to the shards of a group, which are those with the same number modulo `groups`; other groups
    have other inputs. The shards of one process read the input together, once; where it is `dispatched`, one process
    reads for all.
    """

    kind: ClassVar[str] = "deal_rows"
    seeks: ClassVar[bool] = True

    shards: int
    shard: int
    groups: int = 1
    dispatched: bool = False

    def length(self, stage: Stage) -> int | None:
        rows = stage.input.length
        return None if rows is None else len(range(self.shard // self.groups, rows, self.shards // self.groups))

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        group, member = self.shard % self.groups, self.shard // self.groups
        members = self.shards // self.groups
        wanted = at.position * members + member  # of the input's rows, the next one for this shard
        source = Cursor.of(at.token)
        source = source.advance(wanted - source.position)
        here = context.shards if context.shard == self.shard else (self.shard,)
        others = [other // self.groups for other in here if other % self.groups == group]
        share = Share(stage.input.name, source.plain, member, members, context.rounds, context.origins)
        if self.dispatched and context.dispatched is not None:
            return context.dispatched(share)
        return shared_rows(stage.input, share, others, context)


def shared_rows(source: Stage, share: Share, others: Sequence[int], context: Context) -> Iterator[Block]:
    """One shard's share of the rows of `source`; the shards `others` of this process read it together."""
    at = Cursor.of(share.at)
    # From the round of shards that this row is in, for all to share the run, whichever asks first.
    begin = Cursor(at.token, max(0, at.skip - share.shard), at.row)
    readers = context.shared.get((id(source), share.rounds), _Readers)
    reader = readers.claimed(
        share.shard,
        at.position,
        others,
        lambda sharing: _Reader(source, begin, context.whole(), share.shards, sharing),
    )
    try:
        yield from reader.read(share.shard, at.position)
    finally:
        reader.release(share.shard)


class _Readers:
    """The runs of one shared input. One is enough unless shards resume from places that it has passed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readers: list[_Reader] = []

    def claimed(self, shard: int, wanted: int, shards: Sequence[int], make: Callable[[set[int]], _Reader]) -> _Reader:
        """A reader that has kept all rows of `shard` from position `wanted` of the input on."""
        with self._lock:
            for reader in self._readers:
                if reader.claim(shard, wanted):
                    return reader
            # A new one reads for the shards that none reads for yet.
            reader = make({shard, *shards}.difference(*(r.queues for r in self._readers)) | {shard})
            self._readers.append(reader)
            reader.claim(shard, wanted)
            return reader

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


class _Reader:
    """One run of a shared input; what it reads for a shard that is not asking yet waits in that shard's queue."""

    def __init__(self, source: Stage, at: Cursor, context: Context, shards: int, sharing: set[int]) -> None:
        self._clock = Clock()
        self._blocks = source.blocks(at, replace(context, clock=self._clock))
        self._clock.leave()
        self._first = at.position
        self._shards = shards
        self._claimed: set[int] = set()
        self._error: BaseException | None = None
        self._lock = Lock()  # shards may run in threads, with `prefetch`
        self.queues: dict[int, deque[Block]] = {shard: deque() for shard in sharing}

    def claim(self, shard: int, wanted: int) -> bool:
        if shard not in self.queues or shard in self._claimed or self._first > wanted:
            return False
        self._claimed.add(shard)
        return True

    def release(self, shard: int) -> None:
        with self._lock:
            self.queues.pop(shard, None)

    def read(self, shard: int, wanted: int) -> Iterator[Block]:
        first = wanted // self._shards
        while (block := self._next(shard)) is not None:
            behind = first - block.at.position
            if behind < len(block):
                yield block.slice(max(0, behind), len(block))

    def close(self) -> None:
        # A thread that is about to end may still be reading; what it reads is then freed with this object.
        if self._lock.acquire(blocking=False):
            try:
                close(self._blocks)
            finally:
                self._lock.release()

    def _next(self, shard: int) -> Block | None:
        with self._lock:
            queue = self.queues[shard]
            while not queue:
                if self._error is not None:  # what has failed would else look like the end to all other shards
                    raise self._error
                self._clock.enter()
                try:
                    block = next(self._blocks, None)
                except BaseException as error:
                    self._error = error
                    raise
                finally:
                    self._clock.leave()
                if block is None:
                    return None
                self._deal(block)
            return queue.popleft()

    def _deal(self, block: Block) -> None:
        start = block.at.position
        for shard, queue in self.queues.items():
            chosen = range((shard - start) % self._shards, len(block), self._shards)
            if chosen:
                ordinal = (start + chosen.start) // self._shards
                rows, origins = block.kept(chosen)
                end = Cursor(block.end.plain, 0, ordinal + len(chosen))
                queue.append(Block(rows, Cursor(block.at.plain, 0, ordinal), end, origins))


@dataclass(frozen=True)
class Leftover(Operator):
    """What a shard left over when it ended: its rows from `cursor` on, `count` of them where that is known.

    `held` are the rows themselves, where this process still has them: then nothing is read again.
    """

    kind: ClassVar[str] = "leftover"
    seeks: ClassVar[bool] = True

    shard: int
    cursor: Json = None
    count: int | None = None
    held: RowList | None = None

    def length(self, stage: Stage) -> int | None:
        return self.count

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        beginning = Cursor.of(self.cursor).position
        source = Cursor.of(at.token if at.token is not None else self.cursor)
        row = at.position
        if self.held is not None and at.token is None:
            if row < len(self.held):
                rest = take(self.held, range(row, len(self.held)))
                yield Block(rest, START.advance(row), START.advance(len(self.held)))
            return
        inner = replace(context, shard=self.shard, shards=(self.shard,))
        for block in stage.input.blocks(source.advance(beginning + row - source.position), inner):
            here = Cursor(block.at.plain, 0, block.at.position - beginning)
            yield Block(block.rows, here, Cursor(block.end.plain, 0, here.row + len(block)), block.origins)
