"""`RowServer`: in a worker, makes rows of what comes before `remote` for the training process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from ...core.block import Block, OneRow, close
from ...core.context import Context, Pacing
from ...core.cursor import Cursor, Json
from ...core.ending import ProcessResources
from ...core.times import Clock
from ...plan.plan import Plan, ShardRun, remote_stages
from ..base import ShardEnd, Step
from ..turns import Mode, shard_context


class StreamRequest(NamedTuple):
    """Asks for the rows of the `place`-th `remote` in the graph of shard `part`, from a cursor on.

    Seed, epoch, rounds and shard are those of the run, for its draws; `origins` asks for single rows with theirs.
    """

    part: int
    place: int
    seed: int
    epoch: int
    rounds: tuple[int, ...]
    shard: int | None
    at: Json
    origins: bool


@dataclass
class _RunningStream:
    """One run of the operators before a `remote`."""

    blocks: Iterator[Block]
    context: Context


class RowServer:
    """Runs streams of rows, one block of one of them at a time.

    Its items are those of a run: an element is a block's rows and origins, the shard is the number of the stream, and
    the cursor is a list of the cursors before and after the block.
    """

    def __init__(self, plan: Plan, parts: Sequence[ShardRun], epoch: int, mode: Mode) -> None:
        self._tail_name = plan.tail_name
        self._times = mode.times
        self._resources = ProcessResources()
        # Those before `remote`, which itself runs in the training process.
        self._stages = {part.shard: [stage.input for stage in remote_stages(part.stage)] for part in parts}
        shards = tuple(self._stages)
        self._contexts = {part.shard: shard_context(plan, part, shards, epoch, mode, self._resources) for part in parts}
        self._streams: dict[int, StreamRequest | _RunningStream] = {}
        self._credits: deque[int] = deque()

    @property
    def has_work(self) -> bool:
        """Whether a stream may make a block."""
        return bool(self._credits)

    def receive(self, head: tuple[object, ...]) -> None:
        """Take a message: ("open", number, request), ("allow", number) or ("close", number)."""
        kind, number, *arguments = cast("tuple[str, int, StreamRequest]", head)
        if kind == "open":
            self.open(number, *arguments)
        elif kind == "allow":
            self._allow(number)
        else:
            self.close_stream(number)

    def open(self, number: int, request: StreamRequest) -> None:
        """Begin a stream; it makes nothing before it is allowed to."""
        self._streams[number] = request

    def next_number(self) -> int:
        """The stream whose turn it is; there is work."""
        return self._credits.popleft()

    def next(self, number: int) -> Step | ShardEnd:
        """The next block of a stream, or its end. After an end or an error the stream is closed.

        Raises:
            Exception: an operator of the stream has failed.
        """
        stream = self._streams[number]
        try:
            if isinstance(stream, StreamRequest):
                stream = self._streams[number] = self._run(stream)
            block = stream.context.pacing.clock.next(stream.blocks)
        except BaseException:
            self.close_stream(number)
            raise
        if block is None:
            self.close_stream(number)
            return self._end(number, stream.context)
        return Step((block.rows, block.origins), number, [block.at.plain, block.end.plain])

    def close_stream(self, number: int) -> None:
        """End a stream, if it is there."""
        stream = self._streams.pop(number, None)
        if isinstance(stream, _RunningStream):
            close(stream.blocks)
        if number in self._credits:
            self._credits = deque(credit for credit in self._credits if credit != number)

    def close(self) -> None:
        """End all streams, and wait for their threads."""
        for number in list(self._streams):
            self.close_stream(number)
        self._resources.close()
        self._resources.join()

    def _allow(self, number: int) -> None:
        """Let a stream make one more block."""
        if number in self._streams:
            self._credits.append(number)

    def _run(self, request: StreamRequest) -> _RunningStream:
        base = self._contexts[request.part]
        context = replace(
            base,
            seed=request.seed,
            epoch=request.epoch,
            rounds=request.rounds,
            shard=request.shard,
            leftovers={},
            pacing=Pacing(OneRow if request.origins else base.pacing.block_sizes, Clock(self._times)),
            tracing=base.tracing._replace(origins=base.tracing.origins or request.origins),
        )
        blocks = self._stages[request.part][request.place].blocks(Cursor.of(request.at), context)
        return _RunningStream(blocks, context)

    def _end(self, number: int, context: Context) -> ShardEnd:
        leftover = context.leftovers.get(self._tail_name or "")
        if leftover is None:
            return ShardEnd(number)
        return ShardEnd(number, leftover.at.plain, leftover.rows)
