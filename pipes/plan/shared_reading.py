"""`shared_rows`: the shards of one process read an input together if its rows are divided row by row."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from ..core.block import Block, close
from ..core.block_size import Clock
from ..core.context import Context, RowsRequest
from ..core.cursor import Cursor
from ..engine.stage import Stage


def shared_rows(source: Stage, request: RowsRequest, others: Sequence[int], context: Context) -> Iterator[Block]:
    """The rows of `source` that one shard requests; it reads together with the shards `others` of this process."""
    at = Cursor.of(request.at)
    # The run begins with the row of the first shard in the same round, so that all shards can share it.
    begin = Cursor(at.token, max(0, at.skip - request.shard), at.row)
    readers = context.process.resources.get((id(source), request.rounds), _Readers)
    reader = readers.claim(
        request.shard,
        at.position,
        others,
        lambda sharing: _Reader(source, begin, context.unsharded(), request.shards, sharing),
    )
    try:
        yield from reader.read(request.shard, at.position)
    finally:
        reader.release(request.shard)


class _Readers:
    """The runs of one shared input. One run is enough, unless a shard resumes from a row that the run has passed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readers: list[_Reader] = []

    def claim(self, shard: int, position: int, shards: Sequence[int], make: Callable[[set[int]], _Reader]) -> _Reader:
        """A reader that has all rows of `shard` from a position of the input on. It becomes that shard's own."""
        with self._lock:
            for reader in self._readers:
                if reader.claim(shard, position):
                    return reader
            # A new reader also reads for the shards without a reader.
            reader = make({shard, *shards}.difference(*(reader.queues for reader in self._readers)) | {shard})
            self._readers.append(reader)
            reader.claim(shard, position)
            return reader

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


class _Reader:
    """One run of a shared input. Each shard has a queue for the rows that it has not asked for yet."""

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

    def claim(self, shard: int, position: int) -> bool:
        if shard not in self.queues or shard in self._claimed or self._first > position:
            return False
        self._claimed.add(shard)
        return True

    def release(self, shard: int) -> None:
        with self._lock:
            self.queues.pop(shard, None)

    def read(self, shard: int, position: int) -> Iterator[Block]:
        first = position // self._shards
        while (block := self._next(shard)) is not None:
            skipped = first - block.at.position
            if skipped < len(block):
                yield block.slice(max(0, skipped), len(block))

    def close(self) -> None:
        # A thread may still be reading. Its run is then freed with this object.
        if self._lock.acquire(blocking=False):
            try:
                close(self._blocks)
            finally:
                self._lock.release()

    def _next(self, shard: int) -> Block | None:
        with self._lock:
            queue = self.queues[shard]
            while not queue:
                if self._error is not None:  # else a failed run would look like the end to all other shards
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
                self._divide(block)
            return queue.popleft()

    def _divide(self, block: Block) -> None:
        start = block.at.position
        for shard, queue in self.queues.items():
            places = range((shard - start) % self._shards, len(block), self._shards)
            if places:
                first = (start + places.start) // self._shards
                rows, origins = block.select(places)
                end = Cursor(block.end.plain, 0, first + len(places))
                queue.append(Block(rows, Cursor(block.at.plain, 0, first), end, origins))
