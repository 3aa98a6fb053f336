"""`remote`: workers run what comes before it, and the training process the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, NamedTuple, cast

from ..core.block import Block, OneRow, close
from ..core.context import Context, Pacing
from ..core.cursor import START, Cursor, Json
from ..core.ending import ProcessResources
from ..core.rows import BlockRows
from ..core.times import Clock, consumer_clock, here, waiting, worker_name
from ..errors import LoaderError, Origin
from ..plan.plan import Plan, Position, ShardRun, remote_stages
from .base import ShardEnd, Step
from .turns import DEFAULT, Assignment, Mode, run_rank, shard_context


class StreamRequest(NamedTuple):
    """Asks for the rows of a `remote`, from a cursor on.

    Attributes:
        part: the shard in whose graph the operator is.
        place: which of the `remote` in that graph.
        seed, epoch, rounds, shard: those of the run, for its draws.
        at: the plain cursor.
        origins: whether it needs a single row and its origin.
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

    Args:
        plan, epoch: what to run.
        parts: the shards of this worker.
        mode: how to run them.
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


# The run in the training process.


BLOCKS_AHEAD = 2
"""The blocks of each stream that are made ahead, unless the service says otherwise."""
MAX_REQUESTS = 100
"""The requests of each shard that are remembered. Shards that are more rounds apart only make some rows in vain."""


@dataclass(eq=False)
class RowStream:
    """Rows that a worker makes for one reader.

    Attributes:
        number: its number in the run.
        worker: the worker that has the shard.
        request: what to run; its cursor moves on with the blocks that have arrived.
        arrived: items that the reader has not taken, or calls for them.
    """

    number: int
    worker: int
    request: StreamRequest
    arrived: deque[Any] = field(default_factory=deque)


class RemoteRun(ABC):
    """Runs the shards in this process, in turn; their rows before `remote` come from workers, by streams.

    A worker keeps some blocks ready in each stream. When it dies, the next one opens its streams again, after the
    blocks that have arrived. Readers may be in several threads, because of `prefetch`.

    Args:
        plan, position, epoch: what to run.
        workers: how many there are.
        ahead: blocks that are made ahead in each stream.
        lock: held by the thread that speaks with the workers.
    """

    def __init__(self, plan: Plan, position: Position, epoch: int, workers: int, *, ahead: int, lock: Lock) -> None:
        self._plan = plan
        self._position = position
        self._epoch = epoch
        self._worker_count = workers
        self._ahead = ahead
        self._lock = lock
        self._clock, self._times = consumer_clock(), here.run
        self._in_tail = False
        self._ended = False
        self._resources = ProcessResources()
        self._streams: dict[int, RowStream] = {}
        self._next_number = 0
        # A garbage collector may end a reader at any moment, so its end takes no lock: the next message reports it.
        self._closed: deque[RowStream] = deque()
        self._owners: dict[int, int] = {}  # the worker of each shard
        self._places: dict[object, tuple[int, int]] = {}  # of each stage of `remote`, for requests
        self._beginning: list[int] = []  # shards that run from their start
        self._early: dict[StreamRequest, RowStream] = {}  # opened before their readers ask
        self._requested: dict[StreamRequest, None] = {}  # the last requests from a start, in order

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        mode = DEFAULT._replace(remote=self._rows, times=self._clock.times)
        try:
            yield from run_rank(self._plan, self._position, self._epoch, mode, self._resources, self._begin_parts)
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            self._distrust()
            raise
        finally:
            self._ended = True
            self._resources.close()

    def close(self) -> None:
        self._resources.join()
        with self._lock:
            self._cancel()

    @abstractmethod
    def _cancel(self) -> None:
        """End the run of the workers."""

    @abstractmethod
    def _distrust(self) -> None:
        """An interrupt may have cut a message in two."""

    @abstractmethod
    def _serve(self, worker: int, assignment: Assignment) -> None:
        """Have a worker serve the streams of the shards of its assignment."""

    @abstractmethod
    def _send_open(self, stream: RowStream) -> None:
        """Have the worker of a stream begin it, and make `ahead` blocks, less those that have arrived."""

    @abstractmethod
    def _receive(self, stream: RowStream) -> Step | ShardEnd:
        """The next item of a stream. It waits, and raises the worker's error."""

    def _begin_parts(self, position: Position, parts: list[ShardRun], *, in_tail: bool) -> None:
        """Before this process runs `parts`, the workers learn of them."""
        self._position = position
        self._in_tail = in_tail
        self._places.clear()
        for part in parts:
            for place, stage in enumerate(remote_stages(part.stage)):
                self._places.setdefault(stage, (part.shard, place))
        self._beginning = [part.shard for part in parts if part.at == START]
        if in_tail:
            self._owners = {self._plan.tail_shard: 0}
        else:
            count = self._worker_count
            running = {worker: self._plan.running(position, worker, count) for worker in range(count)}
            self._owners = {shard: worker for worker, shards in running.items() for shard in shards}
        with self._lock:
            self._streams.clear()
            self._early.clear()
            for worker in set(self._owners.values()):
                self._serve(worker, self._assignment(worker))

    def _assignment(self, worker: int) -> Assignment:
        return Assignment(self._position, worker, self._worker_count, in_tail=self._in_tail)

    def _reopen(self, worker: int) -> None:
        """Continue with the worker that has replaced one."""
        if worker in self._owners.values():
            self._serve(worker, self._assignment(worker))
            for stream in self._streams.values():
                if stream.worker == worker:
                    self._send_open(stream)

    def _rows(self, stage: object, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows of a stage of `remote`, as `ProcessContext.remote` gives them."""
        part, place = self._places[stage]
        request = StreamRequest(
            part=part,
            place=place,
            seed=context.seed,
            epoch=context.epoch,
            rounds=context.rounds,
            shard=context.shard,
            at=None if at == START else at.plain,
            origins=context.tracing.origins,
        )
        with self._lock:
            early = self._early.pop(request, None) if request.at is None else None
            stream = early or self._open(request)
            if request.at is None and request.shard == part:
                self._open_early(request)
        try:
            while isinstance(item := self._next(stream), Step):
                at_plain, end = cast("tuple[Json, Json]", item.cursor)
                rows, origins = cast("tuple[BlockRows, list[Origin | None] | None]", item.element)
                blocks = [Block(rows, Cursor.of(at_plain), Cursor.of(end), origins)]
                del rows, item  # the receiver of the block holds the only reference
                yield blocks.pop()
            if item.rows is not None and self._plan.tail_name is not None:
                cursor = Cursor.of(item.leftover)
                context.leftovers[self._plan.tail_name] = Block(item.rows, cursor, cursor)
        finally:
            self._closed.append(stream)

    def _next(self, stream: RowStream) -> Step | ShardEnd:
        with waiting("worker", worker_name(stream.worker)):
            return self._receive(stream)

    def _open(self, request: StreamRequest) -> RowStream:
        stream = RowStream(self._next_number, self._owners[request.part], request)
        self._next_number += 1
        self._streams[stream.number] = stream
        self._send_open(stream)
        return stream

    def _open_early(self, request: StreamRequest) -> None:
        """What a shard asks for at its start, the others soon ask for too: so all workers begin at once."""
        self._requested[request] = None
        for shard in self._beginning:
            other = request._replace(part=shard, shard=shard)
            if other not in self._requested:
                self._requested[other] = None
                self._early[other] = self._open(other)
        while len(self._requested) > MAX_REQUESTS * (1 + len(self._beginning)):  # a `repeat` may go on forever
            del self._requested[next(iter(self._requested))]

    def _check_running(self) -> None:
        """End a thread whose run was dropped."""
        if self._ended:
            raise LoaderError("this run has ended")

    def _making(self, worker: int) -> str:
        """Describe what a worker makes next."""
        for stream in self._streams.values():
            if stream.worker == worker:
                request = stream.request
                row = Cursor.of(request.at).position
                return f"row {row} of shard {request.part} before `remote`"
        return "nothing"
