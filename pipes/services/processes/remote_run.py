"""`ProcessRemoteRun`: a `RemoteRun` with worker processes."""

from __future__ import annotations

from typing import cast

from ...core.cursor import Json
from ...core.rows import BlockRows
from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from ..merge import Assignment
from ..plan_arguments import PlanArguments
from ..remote_run import BLOCKS_AHEAD, RemoteRun, RowStream
from .pool import Pool
from .protocol import DispatchRequest, PackedBody, ReceivedItem, RunRequest
from .worker_handle import WorkerHandle


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
                handle.begin(number)

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
        """Waits for messages, puts them into their streams, and replaces workers that have died."""
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
            _, end, _ = cast("list[Json]", item.cursor)
            stream.request = stream.request._replace(at=end)
        else:
            del self._streams[stream.number]

    def _unpack(self, handle: WorkerHandle, item: ReceivedItem) -> Step | ShardEnd | BaseException:
        if item.kind == "failed":
            return item.error()
        if item.kind == "step":
            if item.without_memory:
                self._pool.warn_of_full_memory()
            return Step(handle.element(item), item.shard, item.cursor)
        if not item.parts:
            return ShardEnd(item.shard, item.cursor)
        stream = self._streams.get(item.shard)
        if stream is not None:  # the tail needs them
            self._leftovers[stream.request.part] = b"".join(item.parts), tuple(map(len, item.parts))
        return ShardEnd(item.shard, item.cursor, cast("BlockRows", item.value()))
