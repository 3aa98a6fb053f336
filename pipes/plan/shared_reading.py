"""How the shards of one process read an input together that cannot be dealt without reading all of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from ..core.block import Block, close
from ..core.block_size import Clock
from ..core.context import Context, RowsRequest
from ..core.cursor import Cursor
from ..engine.stage import Stage


def shared_rows(source: Stage, share: RowsRequest, others: Sequence[int], context: Context) -> Iterator[Block]:
    """One shard's share of the rows of `source`; the shards `others` of this process read it together."""
    at = Cursor.of(share.at)
    # From the round of shards that this row is in, for all to share the run, whichever asks first.
    begin = Cursor(at.token, max(0, at.skip - share.shard), at.row)
    readers = context.process.resources.get((id(source), share.rounds), _Readers)
    reader = readers.claimed(
        share.shard,
        at.position,
        others,
        lambda sharing: _Reader(source, begin, context.unsharded(), share.shards, sharing),
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
        self._blocks = source.blocks(at, context.with_clock(self._clock))
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
                rows, origins = block.select(chosen)
                end = Cursor(block.end.plain, 0, ordinal + len(chosen))
                queue.append(Block(rows, Cursor(block.at.plain, 0, ordinal), end, origins))
