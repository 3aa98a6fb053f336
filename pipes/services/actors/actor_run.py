"""`ActorRun`: one run of a plan by actors."""

from __future__ import annotations

from collections.abc import Generator
from typing import cast

import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from ..merge import Assignment, Merge
from ..plan_arguments import PlanArguments
from ..transport.remote_error import RemoteFailure
from .actor_handle import ActorHandle
from .actor_pool import ActorPool
from .burst import BurstItem
from .protocol import LOST, ActorRequest, unpack_parts


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

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        for handle in self._workers:
            handle.begin(self._number)
            self._request(handle)
        yield from self._merge.run(self)

    def close(self) -> None:
        for handle in self._workers:
            handle.cancel()

    def receive(self, worker: int) -> Step | ShardEnd:
        """The next item of an actor. It waits, and replaces actors that die."""
        self._pool.check_owner()
        handle = self._workers[worker]
        while not handle.inbox or handle.inbox[0].kind == "orphaned":
            if handle.inbox:
                self._replace_dispatcher()
            else:
                self._listen(handle)
        return self._unpack(handle.inbox.popleft())

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
        """Asks an actor for all that is left for it to do, after what has arrived from it."""
        leftovers = self._leftovers if self._in_tail else {}
        assignment, board = self._assignment(handle), self._pool.board(handle)
        handle.request(ActorRequest(self._number, self._arguments, self._epoch, assignment, leftovers, board))

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
