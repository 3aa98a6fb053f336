"""`ProcessRun`: one run of a plan by worker processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from ..merge import Assignment, Merge
from ..plan_arguments import PlanArguments
from .pool import Pool
from .protocol import DispatchRequest, PackedBody, ReceivedItem, RunRequest
from .worker_handle import WorkerHandle


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
        while not handle.inbox:
            self._listen([handle])
        return self._unpack(handle, handle.inbox.popleft())

    def wait_for_any(self) -> int:
        """The worker of the next item; workers that have items take turns."""
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
            handle.begin(self._number)
            self._request(handle)

    def _listen(self, handles: list[WorkerHandle]) -> None:
        for handle in self._pool.listen(handles):
            self._pool.replace(handle, self._assignment(handle).next_element(self._plan))
            if not self._in_tail or handle is self._workers[0]:
                self._request(handle)

    def _request(self, handle: WorkerHandle) -> None:
        """Asks a worker for all that is left for it to do, after what has arrived from it."""
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
            if item.without_memory:
                self._pool.warn_of_full_memory()
            return Step(handle.element(item), item.shard, item.cursor)
        if item.parts:  # rows that only worker 0 unpacks
            self._leftovers[item.shard] = b"".join(item.parts), tuple(map(len, item.parts))
        return ShardEnd(item.shard, item.cursor)
