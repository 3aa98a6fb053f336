"""`shared_rows`: the shards of one process read an input together if they divide its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from ..core.block import Block, close
from ..core.block_size import Clock
from ..core.context import Context, RowShare, RowsRequest
from ..core.cursor import Cursor
from ..engine.stage import Stage


def shared_rows(
    source: Stage, at: Cursor, share: RowShare, others: Iterable[RowShare], context: Context
) -> Iterator[Block]:
    """The rows of `source` in a share, from a cursor of these rows on.

    `others` are the shares of the shards in this process that read at about the same time.
    """
    return requested_rows(source, request_of(source, at, share, context), others, context)


def request_of(source: Stage, at: Cursor, share: RowShare, context: Context) -> RowsRequest:
    """Asks for the rows of a share, from a cursor of these rows on."""
    cursor = Cursor.of(at.token)
    cursor = cursor.advance(share.position(at.position) - cursor.position)
    return RowsRequest(source.name, cursor.plain, share, context.rounds, context.tracing.origins)


def requested_rows(
    source: Stage, request: RowsRequest, others: Iterable[RowShare], context: Context
) -> Iterator[Block]:
    """The rows of `source` that one shard requests; it reads together with the shares `others`."""
    share, at = request.share, Cursor.of(request.at)
    # The run begins with the first row of the same turn, so that all shares have it.
    begin = Cursor(at.token, max(0, at.skip - at.position % share.slots), at.row)
    readers = context.process.resources.get((id(source), request.rounds), _Readers)
    reader = readers.claim(share, at.position, others, lambda sharing: _Reader(source, begin, context, sharing))
    try:
        yield from reader.read(share, at.position)
    finally:
        reader.release(share)


class _Readers:
    """The runs of one shared input. One run is enough, unless a shard resumes from a row that the run has passed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readers: list[_Reader] = []

    def claim(
        self, share: RowShare, position: int, others: Iterable[RowShare], make: Callable[[set[RowShare]], _Reader]
    ) -> _Reader:
        """A reader that has all rows of a share from a position of the input on. It becomes that shard's own."""
        with self._lock:
            for reader in self._readers:
                if reader.claim(share, position):
                    return reader
            # A new reader also reads for the shares without a reader.
            reader = make({share, *others}.difference(*(reader.queues for reader in self._readers)) | {share})
            self._readers.append(reader)
            reader.claim(share, position)
            return reader

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


class _Reader:
    """One run of a shared input. Each share has a queue for the rows that its shard has not asked for yet."""

    def __init__(self, source: Stage, at: Cursor, context: Context, sharing: set[RowShare]) -> None:
        self._clock = Clock()
        self._blocks = source.blocks(at, context.with_clock(self._clock))
        self._clock.leave()
        self._first = at.position
        self._claimed: set[RowShare] = set()
        self._error: BaseException | None = None
        self._lock = Lock()  # shards may run in threads, with `prefetch`
        self.queues: dict[RowShare, deque[Block]] = {share: deque() for share in sharing}

    def claim(self, share: RowShare, position: int) -> bool:
        if share not in self.queues or share in self._claimed or self._first > position:
            return False
        self._claimed.add(share)
        return True

    def release(self, share: RowShare) -> None:
        with self._lock:
            self.queues.pop(share, None)

    def read(self, share: RowShare, position: int) -> Iterator[Block]:
        first = share.count(position)
        while (block := self._next(share)) is not None:
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

    def _next(self, share: RowShare) -> Block | None:
        with self._lock:
            queue = self.queues[share]
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
        for share, queue in self.queues.items():
            places = share.places(start, len(block))
            if len(places):
                first = share.count(start)
                rows, origins = block.select(places)
                end = Cursor(block.end.plain, 0, first + len(places))
                queue.append(Block(rows, Cursor(block.at.plain, 0, first), end, origins))
