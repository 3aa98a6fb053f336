"""The runs of worker processes: of a plan, before `remote`, and of keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import cast

from ...core.cursor import Json
from ...core.graph import Node
from ...core.rows import BlockRows
from ...core.times import consumer_clock, here, worker_name
from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from ..remote import BLOCKS_AHEAD, RemoteRun, RowStream
from ..turns import Assignment, Merge
from ..workers import FetchRequest, KeyedRun, Lane, PlanArguments
from .pool import Pool, WorkerHandle
from .protocol import DispatchRequest, PackedBody, ReceivedItem, RunRequest


class ProcessRun:
    """Runs a plan from `position` on; `Merge` puts the elements in order.

    When a worker dies, the elements that it has sent stay in its inbox, and the next process continues after them.
    """

    def __init__(self, pool: Pool, plan: Plan, position: Position, epoch: int, number: int, *, ordered: bool) -> None:
        self._workers = pool.ready(plan.root)
        self._pool = pool
        self._plan = plan
        self._epoch = epoch
        self._number = number
        self._ordered = ordered
        self._arguments = PlanArguments.of(plan)
        self._merge = Merge(plan, position, len(self._workers))
        self._leftovers: dict[int, PackedBody] = {}
        self._in_tail = False
        self._rotation = deque(range(len(self._workers)))
        self._clock, self._times = consumer_clock(), here.run

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements; in the order of the plan, or as they arrive."""
        try:
            self._start()
            yield from self._merge.run(self, ordered=self._ordered)
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            self._pool.distrust()
            raise

    def close(self) -> None:
        for handle in self._workers:
            handle.cancel()

    def receive(self, worker: int) -> Step | ShardEnd:
        """The next item of a worker. It waits, and replaces workers that die."""
        handle = self._workers[worker]
        if not handle.inbox:
            with self._clock.waiting("worker", worker_name(worker)):
                while not handle.inbox:
                    self._listen([handle])
        received = handle.inbox.popleft()
        if not received.places:
            return self._unpack(handle, received)
        with self._clock.waiting("receive"):
            return self._unpack(handle, received)

    def wait_for_any(self) -> int:
        """The worker of the next item; workers that have items take turns."""
        with self._clock.waiting("worker", "workers"):
            while not any(handle.inbox for handle in self._workers):
                self._listen(self._workers)
        while not self._workers[self._rotation[0]].inbox:
            self._rotation.rotate(-1)
        worker = self._rotation[0]
        self._rotation.rotate(-1)
        return worker

    def start_tail(self) -> None:
        """Worker 0 runs the tail."""
        self._in_tail = True
        self._request(self._workers[0])

    def _start(self) -> None:
        self._pool.begin(DispatchRequest(self._number, self._arguments, self._epoch))
        for handle in self._workers:
            handle.begin(self._number, self._times)
            self._request(handle)

    def _listen(self, handles: list[WorkerHandle]) -> None:
        for handle in self._pool.listen(handles):
            self._pool.replace(handle, self._assignment(handle).next_element(self._plan))
            if not self._in_tail or handle is self._workers[0]:
                self._request(handle)

    def _request(self, handle: WorkerHandle) -> None:
        """Ask a worker for all that is left for it to do, after what has arrived from it."""
        request = RunRequest(
            run=self._number,
            arguments=self._arguments,
            epoch=self._epoch,
            assignment=self._assignment(handle),
            waiting=handle.waiting,
            leftovers=self._leftovers if self._in_tail else {},
            careful=handle.deaths > 1,
        )
        handle.request(request)

    def _assignment(self, handle: WorkerHandle) -> Assignment:
        return self._merge.assignment(handle.number, handle.received())

    def _unpack(self, handle: WorkerHandle, item: ReceivedItem) -> Step | ShardEnd:
        """What an item brings."""
        if item.kind == "failed":
            raise item.error()
        if item.kind == "step":
            return Step(self._pool.element(handle, item), item.shard, item.cursor)
        if item.parts:  # rows that only worker 0 unpacks
            self._leftovers[item.shard] = b"".join(item.parts), tuple(map(len, item.parts))
        return ShardEnd(item.shard, item.cursor)


class ProcessRemoteRun(RemoteRun):
    """A run of worker processes. Messages are unpacked as they arrive, so the inboxes of the workers stay empty."""

    def __init__(self, pool: Pool, plan: Plan, position: Position, epoch: int, number: int) -> None:
        self._workers = pool.ready(plan.root)
        ahead = pool.settings.prefetch or BLOCKS_AHEAD
        super().__init__(plan, position, epoch, len(self._workers), ahead=ahead, lock=pool.lock)
        self._pool = pool
        self._number = number
        self._arguments = PlanArguments.of(plan)
        self._leftovers: dict[int, PackedBody] = {}
        with pool.lock:
            pool.begin(DispatchRequest(number, self._arguments, epoch))
            for handle in self._workers:
                handle.begin(number, self._times)

    def _cancel(self) -> None:
        for handle in self._workers:
            handle.cancel()

    def _distrust(self) -> None:
        self._pool.distrust()

    def _serve(self, worker: int, assignment: Assignment) -> None:
        handle = self._workers[worker]
        handle.request(
            RunRequest(
                run=self._number,
                arguments=self._arguments,
                epoch=self._epoch,
                assignment=assignment,
                waiting=0,
                leftovers=self._leftovers if assignment.in_tail else {},
                careful=handle.deaths > 1,
            )
        )

    def _send_open(self, stream: RowStream) -> None:
        handle = self._workers[stream.worker]
        handle.post(("open", stream.number, stream.request))
        for _ in range(self._ahead - len(stream.arrived)):
            handle.post(("allow", stream.number))

    def _receive(self, stream: RowStream) -> Step | ShardEnd:
        while not stream.arrived:
            with self._lock:
                self._check_running()
                if not stream.arrived:
                    self._listen()
        with self._lock:
            item = stream.arrived.popleft()
            if self._streams.get(stream.number) is stream:
                self._workers[stream.worker].post(("allow", stream.number))
            self._close_streams()
        if isinstance(item, BaseException):
            raise item
        return cast("Step | ShardEnd", item)

    def _close_streams(self) -> None:
        while self._closed:
            stream = self._closed.popleft()
            if self._streams.get(stream.number) is stream:
                del self._streams[stream.number]
                self._workers[stream.worker].post(("close", stream.number))

    def _listen(self) -> None:
        """Wait for messages, put them into their streams, and replace workers that have died."""
        dead = self._pool.listen(self._workers)
        for handle in self._workers:
            while handle.inbox:
                self._take(handle, handle.inbox.popleft())
        for handle in dead:
            self._pool.replace(handle, self._making(handle.number))
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
        if stream is not None:  # the tail needs them
            self._leftovers[stream.request.part] = b"".join(item.parts), tuple(map(len, item.parts))
        return ShardEnd(item.shard, item.cursor, cast("BlockRows", item.value()))


class FetchRun(KeyedRun[WorkerHandle]):
    """A run of worker processes. `KeyedRun` explains the other arguments.

    Args:
        pool: the workers.
        root: the graph, a `FetchSource`.
        number: of the run, unique for the pool.
        seed: for the fetchers.
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
        super().__init__(pool.ready(root), keys, turns, positions, first=first, ahead=ahead, ordered=ordered)
        self._pool = pool
        self._number = number
        self._seed = seed
        for lane in self._turns:
            lane.handle.begin(number)
            self._begin(lane)
        self._send_keys()
        for lane in self._turns:
            lane.handle.notify()

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

    def close(self) -> None:
        """End the run. The workers stay."""
        for lane in self._lanes:
            lane.handle.cancel()

    def _lane_of_next(self) -> Lane[WorkerHandle]:
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

    def _send(self, lane: Lane[WorkerHandle], number: int, key: object) -> None:
        lane.handle.queue(("fetch", self._number, number, key))  # the next notice takes it along, or the next wait

    def _listen(self, lanes: list[Lane[WorkerHandle]]) -> None:
        for handle in self._pool.listen([lane.handle for lane in lanes]):
            lane = self._lanes[handle.number]
            answers = len(handle.inbox)
            self._pool.replace(handle, str(lane.keys[min(answers, len(lane.keys) - 1)]))
            self._begin(lane)
            for sent in list(lane.keys)[answers:]:
                self._send(lane, sent.number, sent.key)

    def _begin(self, lane: Lane[WorkerHandle]) -> None:
        """Let a worker continue after what has arrived from it."""
        handle = lane.handle
        position = lane.position
        for item in handle.inbox:
            if item.kind == "step":
                position = item.cursor
        workers = len(self._lanes)
        handle.request(FetchRequest(self._number, handle.number, workers, self._seed, position, handle.waiting))
