"""`Merge`: puts the elements of several workers into the order of the plan, for any reading service.

It knows the plan, the turns of the shards and where each of them stands. It does not know how a service runs its
workers or how elements travel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ..core.cursor import START, Cursor
from ..core.rows import BlockRows
from ..plan.plan import Plan, Position, ShardRun, ShardState
from ..plan.shard_operators import elements_left
from .base import ShardEnd, Step
from .round_robin import turn_order


class Assignment(NamedTuple):
    """What one worker of a run still has to do. It consists of plain values, so it can travel to the worker.

    Attributes:
        position: where the shards stand.
        worker, workers: the number of this worker, and how many there are.
        delivered: elements of an indexed pipe that this worker has delivered since `position`.
        in_tail: whether the worker runs the leftovers of all shards, and not its own shards.
    """

    position: Position
    worker: int
    workers: int
    delivered: int = 0
    in_tail: bool = False

    def parts(self, plan: Plan, leftovers: Mapping[int, BlockRows] = MappingProxyType({})) -> list[ShardRun]:
        """The parts to run, for `run_shards`; `leftovers` saves the tail from reading these rows again."""
        if self.in_tail:
            tail = plan.tail(self.position, leftovers)
            return [] if tail is None else [tail]
        parts = plan.parts(self.position, self.worker, self.workers)
        return [replace(part, at=START.advance(self.delivered)) for part in parts] if plan.indexed else parts

    def next_element(self, plan: Plan) -> str:
        """Describes the element that the worker produces next."""
        if plan.indexed:
            element = plan.rank + plan.world_size * (self.worker + self.delivered * self.workers)
            left, behind = elements_left(self.position.start, self.position.beyond)
            place = left[element] if element < len(left) else behind + element - len(left)
            return f"element {place} of the epoch"
        if self.in_tail:
            cursors = {plan.tail_shard: self.position.of(plan.tail_shard).at}
        else:
            cursors = plan.running(self.position, self.worker, self.workers)
        if not cursors:
            return "nothing"
        shard = turn_order(cursors)[0]
        return f"element {cursors[shard].position} of shard {shard}"


class Workers(Protocol):
    """The workers of one run, numbered from 0, as `Merge` uses them.

    Each worker runs the parts of its assignment with `run_shards`, and its items arrive in that order.
    """

    def receive(self, worker: int) -> Step | ShardEnd:
        """Waits for the next item of this worker. It raises the worker's error."""
        ...

    def wait_for_any(self) -> int:
        """Waits until some worker has an item. Only a service without an order needs this."""
        ...

    def start_tail(self) -> None:
        """Starts worker 0 on its new assignment, the tail. All shards have ended."""
        ...


class Merge:
    """One run of a plan by several workers, from `position` on.

    A shard belongs to one worker, so it is enough to know whose turn it is. The merge tracks where the consumer
    stands; a service that restarts a worker gets its assignment here.

    Attributes:
        leftovers: rows of shards that have ended, by shard, if the service hands them over with `ShardEnd`.
    """

    def __init__(self, plan: Plan, position: Position, workers: int) -> None:
        self.leftovers: dict[int, BlockRows] = {}
        self._plan = plan
        self._workers = workers
        self._start = position
        self._states = dict(position.shards)  # where the consumer stands
        self._delivered = [0] * workers
        self._in_tail = False

    def run(self, workers: Workers, *, ordered: bool = True) -> Generator[Step | ShardEnd]:
        """The items of all shards and then of the tail; in the order of the plan, or as they arrive."""
        owners = self._owners()
        yield from self._in_order(workers, owners) if ordered else self._as_received(workers, len(owners))
        if self._plan.tail(self._start._replace(shards=self._states)) is not None:
            self._in_tail = True
            workers.start_tail()
            yield from self._in_order(workers, {self._plan.tail_shard: 0})

    def assignment(self, worker: int, received: Iterable[Step | ShardEnd] = ()) -> Assignment:
        """What is left for `worker` to do.

        Args:
            worker: its number.
            received: items that have arrived from it and are still to be consumed; the worker continues after them.
        """
        states = dict(self._states)
        delivered = self._delivered[worker]
        for item in received:
            delivered += isinstance(item, Step)
            self._record(states, item)
        return Assignment(self._start._replace(shards=states), worker, self._workers, delivered, self._in_tail)

    def _owners(self) -> dict[int, int]:
        """The worker of each shard that still runs, in the order of their turns."""
        cursors: dict[int, Cursor] = {}
        owners: dict[int, int] = {}
        position = self._start._replace(shards=self._states)
        for worker in range(self._workers):
            running = self._plan.running(position, worker, self._workers)
            cursors |= running
            owners |= dict.fromkeys(running, worker)
        return {shard: owners[shard] for shard in turn_order(cursors)}

    def _in_order(self, workers: Workers, owners: dict[int, int]) -> Iterator[Step | ShardEnd]:
        """Continues the turns of `run_shards` over all workers; `owners` begins with the shard whose turn is next."""
        turns = deque(owners)
        while turns:
            shard = turns.popleft()
            item = self._receive(workers, owners[shard])
            if isinstance(item, Step):
                turns.append(shard)
            yield item
            del item  # the consumer may drop the element before it asks for the next one

    def _as_received(self, workers: Workers, running: int) -> Iterator[Step | ShardEnd]:
        while running:
            item = self._receive(workers, workers.wait_for_any())
            running -= isinstance(item, ShardEnd)
            yield item
            del item

    def _receive(self, workers: Workers, worker: int) -> Step | ShardEnd:
        """The next item of a worker; from here on the consumer has it."""
        item = workers.receive(worker)
        self._record(self._states, item)
        if isinstance(item, Step):
            self._delivered[worker] += 1
        elif item.rows is not None:
            self.leftovers[item.shard] = item.rows
        return item

    def _record(self, states: dict[int, ShardState], item: Step | ShardEnd) -> None:
        if self._plan.indexed:
            return  # `_delivered` says where the consumer stands
        if isinstance(item, Step):
            states[item.shard] = ShardState(item.cursor)
        else:
            states[item.shard] = ShardState(None, True, item.leftover)
