"""The runs of actors: of a plan, before `remote`, and of keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from threading import Lock
from typing import Any, cast

import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...core.cursor import Json
from ...core.graph import Node
from ...core.rows import BlockRows
from ...core.times import consumer_clock, here, worker_name
from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from ..remote import BLOCKS_AHEAD, RemoteRun, RowStream
from ..transport.channel import RemoteFailure
from ..turns import Assignment, Merge
from ..workers import FetchRequest, KeyedRun, Lane, PlanArguments
from .burst import BurstItem, burst_items
from .pool import ActorHandle, ActorPool
from .protocol import LOST, ActorRequest, unpack_parts

MAX_UNSEEN_BYTES = 1 << 14
"""Elements up to this size are unpacked without a look at the time."""


class ActorRun:
    """Runs a plan from `position` on; `Merge` puts the elements in order.

    When an actor dies, the elements that have arrived from it stay in its inbox, and the next one continues after them.
    """

    def __init__(self, pool: ActorPool, plan: Plan, position: Position, epoch: int, number: int) -> None:
        self._workers = pool.ready(plan.root)
        self._pool = pool
        self._plan = plan
        self._epoch = epoch
        self._number = number
        self._arguments = PlanArguments.of(plan)
        self._merge = Merge(plan, position, len(self._workers))
        self._leftovers: dict[int, tuple[bytes, ...]] = {}
        self._in_tail = False
        self._clock, self._times = consumer_clock(), here.run

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        for handle in self._workers:
            handle.begin(self._number, self._times)
            self._request(handle)
        yield from self._merge.run(self)

    def close(self) -> None:
        for handle in self._workers:
            handle.cancel()

    def receive(self, worker: int) -> Step | ShardEnd:
        """The next item of an actor. It waits, and replaces actors that die."""
        self._pool.check_owner()
        handle = self._workers[worker]
        if not handle.inbox or handle.inbox[0].kind == "orphaned":
            with self._clock.waiting("worker", worker_name(worker)):
                self._await(handle)
        item = handle.inbox.popleft()
        if sum(map(len, item.parts)) <= MAX_UNSEEN_BYTES:
            return self._unpack(item)
        with self._clock.waiting("receive"):
            return self._unpack(item)

    def _await(self, handle: ActorHandle) -> None:
        while not handle.inbox or handle.inbox[0].kind == "orphaned":
            if handle.inbox:
                self._replace_dispatcher()
            else:
                self._listen(handle)

    def wait_for_any(self) -> int:
        raise AssertionError("elements of actors come in the order of the plan")

    def start_tail(self) -> None:
        """Worker 0 runs the tail."""
        self._in_tail = True
        self._request(self._workers[0])

    def _listen(self, handle: ActorHandle) -> None:
        timeout = self._pool.settings.timeout
        try:
            handle.receive(timeout)
        except ray.exceptions.GetTimeoutError as error:
            raise self._pool.timeout_error(handle, self._assignment(handle).next_element(self._plan)) from error
        except LOST as error:
            self._pool.replace(handle, self._assignment(handle).next_element(self._plan), error)
            self._request(handle)

    def _replace_dispatcher(self) -> None:
        for handle in self._workers:
            if handle.inbox and handle.inbox[-1].kind == "orphaned":
                handle.inbox.pop()
        self._pool.replace_dispatcher()
        for handle in self._workers[:1] if self._in_tail else self._workers:
            self._request(handle)

    def _request(self, handle: ActorHandle) -> None:
        """Ask an actor for all that is left for it to do, after what has arrived from it."""
        leftovers = self._leftovers if self._in_tail else {}
        assignment, notes = self._assignment(handle), self._pool.crash_notes(handle)
        handle.request(ActorRequest(self._number, self._arguments, self._epoch, assignment, leftovers, notes))

    def _assignment(self, handle: ActorHandle) -> Assignment:
        return self._merge.assignment(handle.number, handle.received())

    def _unpack(self, item: BurstItem) -> Step | ShardEnd:
        if item.kind == "step":
            return Step(unpack_parts(item.parts), item.shard, item.cursor)
        if item.kind == "failed":
            raise cast("RemoteFailure", unpack_parts(item.parts)).to_exception()
        if item.parts:  # rows that only worker 0 unpacks
            self._leftovers[item.shard] = tuple(map(bytes, item.parts))
        return ShardEnd(item.shard, item.cursor)


class ActorRemoteRun(RemoteRun):
    """A run of actors. A call for each block that is made ahead waits in its actor."""

    def __init__(self, pool: ActorPool, plan: Plan, position: Position, epoch: int, number: int) -> None:
        self._workers = pool.ready(plan.root)
        ahead = pool.settings.prefetch or BLOCKS_AHEAD
        super().__init__(plan, position, epoch, len(self._workers), ahead=ahead, lock=Lock())
        self._pool = pool
        self._number = number
        self._arguments = PlanArguments.of(plan)
        self._leftovers: dict[int, tuple[bytes, ...]] = {}
        for handle in self._workers:
            handle.begin(number, self._times)

    def _cancel(self) -> None:
        for handle in self._workers:
            handle.cancel()

    def _distrust(self) -> None:
        self._pool.distrust()

    def _serve(self, worker: int, assignment: Assignment) -> None:
        leftovers = self._leftovers if assignment.in_tail else {}
        handle = self._workers[worker]
        notes = self._pool.crash_notes(handle)
        request = ActorRequest(self._number, self._arguments, self._epoch, assignment, leftovers, notes)
        handle.actor.serve.remote(request)

    def _send_open(self, stream: RowStream) -> None:
        self._workers[stream.worker].actor.open_stream.remote(self._number, stream.number, stream.request)
        stream.arrived.clear()  # an actor that has died may have taken the blocks with it
        for _ in range(self._ahead):
            self._call(stream)

    def _call(self, stream: RowStream) -> None:
        closed = [self._closed.popleft() for _ in range(len(self._closed))]
        numbers = [other.number for other in closed if self._streams.pop(other.number, None) is not None]
        calls: Any = self._workers[stream.worker].actor
        stream.arrived.append(calls.next_block.remote(self._number, stream.number, numbers))

    def _receive(self, stream: RowStream) -> Step | ShardEnd:
        item = self._item(stream)
        if item.kind == "failed":
            raise cast("RemoteFailure", unpack_parts(item.parts)).to_exception()
        if item.kind == "ended":
            if not item.parts:
                return ShardEnd(stream.number, item.cursor)
            self._leftovers[stream.request.part] = tuple(map(bytes, item.parts))
            return ShardEnd(stream.number, item.cursor, cast("BlockRows", unpack_parts(item.parts)))
        return Step(unpack_parts(item.parts), stream.number, item.cursor)

    def _item(self, stream: RowStream) -> BurstItem:
        """The next item of a stream. It waits, and replaces actors that die."""
        self._pool.check_owner()
        while True:
            call = stream.arrived[0]
            handle = self._workers[stream.worker]
            timeout = self._pool.settings.timeout
            try:
                burst = ray.get(call, timeout=timeout)
                items = list(burst_items(burst))
            except ray.exceptions.GetTimeoutError as error:
                raise self._pool.timeout_error(handle, self._making(stream.worker)) from error
            except LOST as error:
                with self._lock:
                    if stream.arrived[0] is call:  # else another thread has replaced the actor
                        self._pool.replace(handle, self._making(stream.worker), error)
                        self._reopen(stream.worker)
                continue
            if self._times is not None:
                self._times.add(burst[2])
            with self._lock:
                self._check_running()
                if stream.arrived[0] is not call:
                    continue
                if items[0].kind == "orphaned":
                    self._pool.replace_dispatcher()
                    for worker in range(len(self._workers)):
                        self._reopen(worker)
                    continue
                self._take(stream, items[0])
                return items[0]

    def _take(self, stream: RowStream, item: BurstItem) -> None:
        stream.arrived.popleft()
        self._workers[stream.worker].progress = True
        if item.kind != "step":
            self._streams.pop(stream.number, None)
            return
        _, end = cast("list[Json]", item.cursor)
        stream.request = stream.request._replace(at=end)
        self._call(stream)


class ActorFetchRun(KeyedRun[ActorHandle]):
    """A run of actors. `KeyedRun` and `FetchRun` explain the arguments."""

    def __init__(
        self,
        pool: ActorPool,
        root: Node,
        keys: Iterator[object],
        turns: Sequence[int],
        positions: Sequence[Json],
        *,
        number: int,
        first: int,
        seed: int,
        ahead: int,
    ) -> None:
        super().__init__(pool.ready(root), keys, turns, positions, first=first, ahead=ahead)
        self._pool = pool
        self._number = number
        self._seed = seed
        for lane in self._turns:
            lane.handle.deaths = 0
            self._begin(lane)
        self._send_keys()

    def __next__(self) -> object:
        while self._turns and self._turns[0].keys:
            lane = self._turns[0]
            item = self._receive(lane)
            lane.keys.popleft()
            if item.kind == "ended":
                lane.position = item.cursor
                self._end_lane(lane)
                continue
            self._turns.rotate(-1)
            try:
                if item.kind == "failed":
                    raise cast("RemoteFailure", unpack_parts(item.parts)).to_exception()
                lane.position = item.cursor
                return unpack_parts(item.parts)
            finally:
                self._send_keys()
        raise StopIteration

    def close(self) -> None:
        """End the run. The actors stay, and finish the calls that were sent."""
        for lane in self._lanes:
            lane.keys.clear()

    def _receive(self, lane: Lane[ActorHandle]) -> BurstItem:
        """The answer to the first key of a lane. It waits, and replaces actors that die."""
        self._pool.check_owner()
        timeout = self._pool.settings.timeout
        while True:
            sent = lane.keys[0]
            try:
                (item,) = burst_items(ray.get(sent.call, timeout=timeout))
            except ray.exceptions.GetTimeoutError as error:
                raise self._pool.timeout_error(lane.handle, str(sent)) from error
            except LOST as error:
                self._pool.replace(lane.handle, str(sent), error)
                self._begin(lane)
            else:
                lane.handle.progress = True
                return item

    def _begin(self, lane: Lane[ActorHandle]) -> None:
        """Let an actor continue after the last element that was taken from it."""
        handle = lane.handle
        request = FetchRequest(self._number, handle.number, len(self._lanes), self._seed, lane.position, 0)
        handle.actor.begin_fetching.remote(request)
        lane.keys = deque(sent._replace(call=self._send(lane, sent.number, sent.key)) for sent in lane.keys)

    def _send(self, lane: Lane[ActorHandle], number: int, key: object) -> Any:
        return lane.handle.actor.fetch.remote(number, key)
