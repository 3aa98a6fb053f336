"""`ActorRemoteRun`: a `RemoteRun` with actors."""

from __future__ import annotations

from threading import Lock
from typing import Any, cast

import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...core.cursor import Json
from ...core.rows import BlockRows
from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from ..merge import Assignment
from ..plan_arguments import PlanArguments
from ..remote_run import BLOCKS_AHEAD, RemoteRun, RowStream
from ..transport.remote_error import RemoteFailure
from .actor_pool import ActorPool
from .burst import BurstItem, burst_items
from .protocol import LOST, ActorRequest, unpack_parts


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
            handle.begin(number)

    def _cancel(self) -> None:
        for handle in self._workers:
            handle.cancel()

    def _distrust(self) -> None:
        self._pool.distrust()

    def _serve(self, worker: int, assignment: Assignment) -> None:
        leftovers = self._leftovers if assignment.in_tail else {}
        handle = self._workers[worker]
        board = self._pool.board(handle)
        request = ActorRequest(self._number, self._arguments, self._epoch, assignment, leftovers, board)
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
                items = list(burst_items(ray.get(call, timeout=timeout)))
            except ray.exceptions.GetTimeoutError as error:
                raise self._pool.timeout_error(handle, self._making(stream.worker)) from error
            except LOST as error:
                with self._lock:
                    if stream.arrived[0] is call:  # else another thread has replaced the actor
                        self._pool.replace(handle, self._making(stream.worker), error)
                        self._reopen(stream.worker)
                continue
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
        _, end, _ = cast("list[Json]", item.cursor)
        stream.request = stream.request._replace(at=end)
        self._call(stream)
