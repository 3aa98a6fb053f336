"""The runs of worker processes: of a plan, before `remote`, and of keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple, cast

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import START, Cursor, Json
from ...core.ending import ProcessResources
from ...core.graph import Node
from ...core.origins import Origins
from ...core.rows import BlockRows
from ...core.times import consumer_clock, here, waiting, worker_name
from ...errors import LoaderError
from ...plan.plan import Plan, Position, ShardRun, remote_stages
from ..base import PlanService, ServiceRun, ShardEnd, Step
from ..fetching import FetchRequest
from ..turns import DEFAULT, Assignment, Item, Merge, run_rank
from .pool import Pool, PoolSettings, WorkerHandle
from .protocol import DispatchRequest, PackedBody, PlanArguments, ReceivedItem, RunRequest, StartHead, StreamRequest


def plan_service(settings: PoolSettings) -> PlanService:
    """Runs plans in the workers of a new pool."""
    pool, numbers = Pool(settings), count(1)

    def make_run(plan: Plan, position: Position, epoch: int) -> ServiceRun:
        if plan.has_remote:
            return RemoteRun(pool, plan, position, epoch, next(numbers))
        return ProcessRun(pool, plan, position, epoch, next(numbers))

    return PlanService(make_run, pool)


class _PlanRun:
    """What runs of plans have in common."""

    def __init__(self, pool: Pool, plan: Plan, epoch: int, number: int) -> None:
        self._workers = pool.ready(plan.root)
        self._pool = pool
        self._plan = plan
        self._epoch = epoch
        self._number = number
        self._arguments = PlanArguments.of(plan)
        self._leftovers: dict[int, PackedBody] = {}
        self._in_tail = False
        self._clock, self._times = consumer_clock(), here.run

    def close(self) -> None:
        for handle in self._workers:
            handle.cancel()

    def _begin(self) -> None:
        self._pool.begin(DispatchRequest(self._number, self._arguments, self._epoch))
        for handle in self._workers:
            handle.begin(self._number, self._times)

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """An interrupt may come amid a message, so the next run needs other processes."""
        try:
            yield
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            self._pool.distrust()
            raise

    def _send_request(self, handle: WorkerHandle, assignment: Assignment) -> None:
        request = RunRequest(
            run=self._number,
            arguments=self._arguments,
            epoch=self._epoch,
            assignment=assignment,
            waiting=handle.waiting,
            leftovers=self._leftovers if self._in_tail else {},
            careful=handle.deaths > 1,
        )
        handle.request(request)

    def _keep_leftover(self, shard: int, item: ReceivedItem) -> None:
        """Keep packed rows that end a shard for worker 0, which runs the tail."""
        self._leftovers[shard] = b"".join(item.parts), tuple(map(len, item.parts))


class ProcessRun(_PlanRun):
    """Runs a plan from `position` on; `Merge` puts the elements in order.

    When a worker dies, the elements that it has sent stay in its inbox, and the next process continues after them.
    """

    def __init__(self, pool: Pool, plan: Plan, position: Position, epoch: int, number: int) -> None:
        super().__init__(pool, plan, epoch, number)
        self._merge = Merge(plan, position, len(self._workers))
        self._starts: dict[int, StartHead] = {}  # where spans begin that have not ended
        self._relayed = 0.0

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        with self._interruptible():
            self._begin()
            for handle in self._workers:
                self._request(handle)
            yield from self._merge.run(self._receive, self._start_tail)

    def _receive(self, worker: int) -> Item:
        """The next item of a worker. It waits, and replaces workers that die."""
        handle = self._workers[worker]
        if handle.inbox and self._merge.in_spans and perf_counter() - self._relayed > RELAY_SECONDS:
            self._replace(self._pool.collect())
            self._relay_starts()
        if not handle.inbox:
            with self._clock.waiting("worker", worker_name(worker)):
                while not handle.inbox:
                    self._listen([handle])
        received = handle.inbox.popleft()
        if not received.places:
            return self._unpack(handle, received)
        with self._clock.waiting("receive"):
            return self._unpack(handle, received)

    def _start_tail(self) -> None:
        """Worker 0 runs the tail."""
        self._in_tail = True
        self._request(self._workers[0])

    def _listen(self, handles: list[WorkerHandle]) -> None:
        self._replace(self._pool.listen(handles, self._making))
        if self._merge.in_spans:
            self._relay_starts()

    def _replace(self, dead: Iterable[WorkerHandle]) -> None:
        for handle in dead:
            self._pool.replace(handle, self._making(handle))
            if not self._in_tail or handle is self._workers[0]:
                self._request(handle)

    def _relay_starts(self) -> None:
        """Tell each worker where its next span begins."""
        self._relayed = perf_counter()
        for handle in self._workers:
            while handle.starts:
                start = handle.starts.popleft()
                span = start[2]
                if span not in self._starts:  # a worker that replaces one finds it again
                    self._starts[span] = start
                    self._workers[span % len(self._workers)].channel.post(start)

    def _request(self, handle: WorkerHandle) -> None:
        """Ask a worker for all that is left for it to do, after what has arrived from it."""
        assignment = self._assignment(handle)
        self._send_request(handle, assignment)
        if assignment.span is not None:
            first, _ = assignment.span
            for span in range(first, max(self._starts, default=-1) + 1, len(self._workers)):
                if span in self._starts:
                    handle.channel.post(self._starts[span])

    def _making(self, handle: WorkerHandle) -> str:
        return self._assignment(handle).next_element(self._plan)

    def _assignment(self, handle: WorkerHandle) -> Assignment:
        return self._merge.assignment(handle.number, handle.received())

    def _unpack(self, handle: WorkerHandle, item: ReceivedItem) -> Item:
        """What an item brings."""
        if item.kind == "failed":
            raise item.error()
        if item.kind == "step":
            return item.item(self._pool.element(handle, item))
        if item.kind == "span":
            self._starts.pop(item.shard, None)
        elif item.parts:
            self._keep_leftover(item.shard, item)
        return item.item()


RELAY_SECONDS = 0.001
"""A worker that waits to begin its span does so within this time, if the consumer takes elements meanwhile."""
BLOCKS_AHEAD = 2
"""The blocks of each stream that are made ahead, unless the service says otherwise."""
MAX_REQUESTS = 100
"""The requests of each shard that are remembered. Shards that are more rounds apart only make some rows in vain."""


@dataclass(eq=False)
class RowStream:
    """Rows that a worker makes for one reader.

    The cursor of the request moves on with the blocks that have arrived, also those that the reader has not taken.
    """

    number: int
    worker: int
    request: StreamRequest
    arrived: deque[Any] = field(default_factory=deque)


class RemoteRun(_PlanRun):
    """Runs the shards in this process, in turn; their rows before `remote` come from workers, by streams.

    A worker keeps some blocks ready in each stream. When it dies, the next one opens its streams again, after the
    blocks that have arrived. Readers may be in several threads, because of `prefetch`. Messages are unpacked as they
    arrive, so the inboxes of the workers stay empty.
    """

    def __init__(self, pool: Pool, plan: Plan, position: Position, epoch: int, number: int) -> None:
        super().__init__(pool, plan, epoch, number)
        self._position = position
        self._ahead = pool.settings.prefetch or BLOCKS_AHEAD
        self._lock = pool.lock  # held by the thread that speaks with the workers
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
        with pool.lock:
            self._begin()

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        mode = DEFAULT._replace(remote=self._rows, times=self._clock.times)
        try:
            with self._interruptible():
                yield from run_rank(self._plan, self._position, self._epoch, mode, self._resources, self._begin_parts)
        finally:
            self._ended = True
            self._resources.close()

    def close(self) -> None:
        self._resources.join()
        with self._lock:
            super().close()

    def _begin_parts(self, position: Position, parts: list[ShardRun], in_tail: bool) -> None:
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
            count = len(self._workers)
            running = {worker: self._plan.running(position, worker, count) for worker in range(count)}
            self._owners = {shard: worker for worker, shards in running.items() for shard in shards}
        with self._lock:
            self._streams.clear()
            self._early.clear()
            for worker in set(self._owners.values()):
                self._serve(worker)

    def _serve(self, worker: int) -> None:
        assignment = Assignment(self._position, worker, len(self._workers), in_tail=self._in_tail)
        self._send_request(self._workers[worker], assignment)

    def _reopen(self, worker: int) -> None:
        """Continue with the worker that has replaced one."""
        if worker in self._owners.values():
            self._serve(worker)
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
                rows, origins = cast("tuple[BlockRows, Origins | None]", item.element)
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

    def _making(self, handle: WorkerHandle) -> str:
        """Describe what a worker makes next."""
        for stream in self._streams.values():
            if stream.worker == handle.number:
                request = stream.request
                row = Cursor.of(request.at).position
                return f"row {row} of shard {request.part} before `remote`"
        return "nothing"

    def _send_open(self, stream: RowStream) -> None:
        handle = self._workers[stream.worker]
        handle.channel.post(("open", stream.number, stream.request))
        for _ in range(self._ahead - len(stream.arrived)):
            handle.channel.post(("allow", stream.number))

    def _receive(self, stream: RowStream) -> Step | ShardEnd:
        while not stream.arrived:
            with self._lock:
                self._check_running()
                if not stream.arrived:
                    self._listen()
        with self._lock:
            item = stream.arrived.popleft()
            if self._streams.get(stream.number) is stream:
                self._workers[stream.worker].channel.post(("allow", stream.number))
            self._close_streams()
        if isinstance(item, BaseException):
            raise item
        return cast("Step | ShardEnd", item)

    def _close_streams(self) -> None:
        while self._closed:
            stream = self._closed.popleft()
            if self._streams.get(stream.number) is stream:
                del self._streams[stream.number]
                self._workers[stream.worker].channel.post(("close", stream.number))

    def _listen(self) -> None:
        """Wait for messages, put them into their streams, and replace workers that have died."""
        dead = self._pool.listen(self._workers, self._making)
        for handle in self._workers:
            while handle.inbox:
                self._take(handle, handle.inbox.popleft())
        for handle in dead:
            self._pool.replace(handle, self._making(handle))
            self._reopen(handle.number)

    def _take(self, handle: WorkerHandle, received: ReceivedItem) -> None:
        stream = self._streams.get(received.shard)
        item: Step | ShardEnd | BaseException
        try:
            item = self._unpack(handle, received)
        except Exception as error:  # a class of the user may fail to arrive
            item = error
        if stream is None:
            return  # its reader has ended
        stream.arrived.append(item)
        if isinstance(item, Step):
            _, end = cast("list[Json]", item.cursor)
            stream.request = stream.request._replace(at=end)
        else:
            del self._streams[stream.number]

    def _unpack(self, handle: WorkerHandle, item: ReceivedItem) -> Step | ShardEnd | BaseException:
        if item.kind == "failed":
            return item.error()
        if item.kind == "step":
            return Step(self._pool.element(handle, item), item.shard, item.cursor)
        if not item.parts:
            return ShardEnd(item.shard, item.cursor)
        stream = self._streams.get(item.shard)
        if stream is not None:
            self._keep_leftover(stream.request.part, item)
        return ShardEnd(item.shard, item.cursor, cast("BlockRows", item.value()))


_NO_KEY = object()


class SentKey(NamedTuple):
    """A key that a worker has, and whose element was not taken; `number` is that of the element."""

    number: int
    key: object

    def __str__(self) -> str:
        return f"element {self.number}, of {self.key!r:.200}"


@dataclass(eq=False)
class Lane:
    """The part of one worker in a run: its keys, and its position after the last element that the consumer took."""

    handle: WorkerHandle
    position: Json
    keys: deque[SentKey] = field(default_factory=deque)


class FetchRun:
    """The elements of keys, which workers make: an iterator.

    The workers get keys in turn, each up to `ahead`. After an error of the user's code, the run continues with the next
    key. When a worker dies, the next one in its place gets the keys without an answer.

    Args:
        turns: the workers that have not ended, in the order in which they get keys.
        positions: that of each worker; None for one that begins.
        number: of the run, unique for the pool.
        first: the number of the first element.
    """

    def __init__(
        self,
        pool: Pool,
        root: Node,
        keys: Iterator[object],
        turns: Sequence[int],
        positions: Sequence[Json],
        *,
        number: int,
        first: int,
        seed: int,
        ahead: int,
        ordered: bool,
    ) -> None:
        self._pool = pool
        self._lanes = [Lane(*pair) for pair in zip(pool.ready(root), positions, strict=True)]
        self._turns = deque(self._lanes[worker] for worker in turns)  # whose element is next
        self._askable = deque(self._turns)  # who gets the next key
        self._keys = keys
        self._number, self._seed = number, seed
        self._next_number = first
        self._ahead, self._ordered = ahead, ordered
        for lane in self._turns:
            lane.handle.begin(number)
            self._begin(lane)
        self._send_keys()
        for lane in self._turns:
            lane.handle.notify()

    def __iter__(self) -> FetchRun:
        return self

    def __next__(self) -> object:
        while any(lane.keys for lane in self._turns):
            lane = self._lane_of_next()
            lane.keys.popleft()
            item = lane.handle.inbox.popleft()
            if item.kind == "ended":
                lane.position = item.cursor
                self._end_lane(lane)
                continue
            self._turns.rotate(-1)
            self._send_keys()
            if item.kind == "failed":
                raise item.error()
            lane.position = item.cursor
            return self._pool.element(lane.handle, item)
        raise StopIteration

    @property
    def positions(self) -> list[Json]:
        """The position of each worker, after the elements that the consumer took."""
        return [lane.position for lane in self._lanes]

    @property
    def turns(self) -> list[int]:
        """The workers that have not ended, in the order of their next elements."""
        return [lane.handle.number for lane in self._turns]

    def close(self) -> None:
        """End the run. The workers stay."""
        for lane in self._lanes:
            lane.handle.cancel()

    def _lane_of_next(self) -> Lane:
        """The worker of the next answer, which is in its inbox; it comes to the front of the turns."""
        if self._ordered:
            lane = self._turns[0]
            while not lane.handle.inbox:
                self._listen([lane])
            return lane
        while not any(lane.handle.inbox for lane in self._turns):
            self._listen(list(self._turns))
        while not self._turns[0].handle.inbox:
            self._turns.rotate(-1)
        return self._turns[0]

    def _send_keys(self) -> None:
        """Send keys as long as the next worker has fewer than `ahead`; without an order, as long as any has."""
        for _ in range(len(self._askable) * self._ahead):
            lane = self._askable[0]
            if len(lane.keys) < self._ahead:
                key = next(self._keys, _NO_KEY)
                if key is _NO_KEY:
                    return
                lane.keys.append(SentKey(self._next_number, key))
                self._send(lane, lane.keys[-1])
                self._next_number += 1
            elif self._ordered:
                return
            self._askable.rotate(-1)

    def _send(self, lane: Lane, sent: SentKey) -> None:
        lane.handle.channel.queue(("fetch", self._number, *sent))  # the next notice takes it along, or the next wait

    def _end_lane(self, lane: Lane) -> None:
        """A worker has no further elements, so it gets no further keys, and no turns."""
        lane.keys.clear()
        self._turns.remove(lane)
        self._askable.remove(lane)
        self._send_keys()

    def _listen(self, lanes: list[Lane]) -> None:
        for handle in self._pool.listen([lane.handle for lane in lanes], self._making):
            lane = self._lanes[handle.number]
            self._pool.replace(handle, self._making(handle))
            self._begin(lane)
            for sent in list(lane.keys)[len(handle.inbox) :]:
                self._send(lane, sent)

    def _making(self, handle: WorkerHandle) -> str:
        keys = self._lanes[handle.number].keys
        return str(keys[min(len(handle.inbox), len(keys) - 1)])

    def _begin(self, lane: Lane) -> None:
        """Let a worker continue after what has arrived from it."""
        handle = lane.handle
        position = lane.position
        for item in handle.inbox:
            if item.kind == "step":
                position = item.cursor
        workers = len(self._lanes)
        handle.request(FetchRequest(self._number, handle.number, workers, self._seed, position, handle.waiting))
