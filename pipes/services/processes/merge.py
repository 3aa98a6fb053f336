"""What the workers of a run make, put into the order of the plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import cast

from ...core.cursor import Cursor, Json
from ...plan.plan import Plan, Position, ShardState
from ..base import ShardEnd, Step
from ..round_robin import turn_order
from ..transport.channel import Message
from .pool import Pool
from .protocol import Bundle, Order, Place, Program, Sizes, Terms, failure
from .worker_handle import Worker


class Merge:
    """One run of a plan, which begins at `position`.

    A shard belongs to one worker, so this side only has to know whose turn it is. It keeps where the consumer stands.
    When a worker dies, what it has sent stays in its inbox, and the next process goes on behind that.
    """

    def __init__(self, pool: Pool, plan: Plan, position: Position, epoch: int, run: int) -> None:
        self.workers = pool.ready(plan.root)
        self._pool = pool
        self._plan = plan
        self._epoch = epoch
        self._run = run
        self._terms = Terms(plan.seed, plan.rank, plan.world_size, plan.shards)
        self._start = position.start
        self._states = dict(position.shards)  # where the consumer stands
        self._given = [0] * len(self.workers)  # of an indexed pipe: elements that each worker's share has given
        self._leftovers: dict[int, Bundle] = {}
        self._in_tail = False

    def run(self, *, ordered: bool) -> Generator[Step | ShardEnd]:
        """The elements; in the order of the plan, or as they come."""
        try:
            owners = self._begun()
            yield from self._in_turn(owners) if ordered else self._as_they_come(owners)
            if self._plan.tail(Position(self._start, self._states)) is not None:
                self._in_tail = True
                self.workers[0].order(self._order(self.workers[0]))
                yield from self._in_turn({self._plan.tail_shard: self.workers[0]})
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            self._pool.distrust()
            raise

    def _begun(self) -> dict[int, Worker]:
        """Gives the workers their orders; whose each shard is, beginning with the one whose turn is next."""
        self._pool.begin(Program(self._run, self._terms, self._epoch))
        places: dict[int, Cursor] = {}
        owners: dict[int, Worker] = {}
        position = Position(self._start, self._states)
        for worker in self.workers:
            worker.begin(self._run)
            running = self._plan.running(position, worker.number, len(self.workers))
            places |= running
            owners |= dict.fromkeys(running, worker)
            worker.order(self._order(worker))
        return {shard: owners[shard] for shard in turn_order(places)}

    def _in_turn(self, owners: dict[int, Worker]) -> Iterator[Step | ShardEnd]:
        """As `turns` orders them, over all workers: `owners` begins with the shard that is next."""
        waiting = deque(owners)
        while waiting:
            shard = waiting.popleft()
            worker = owners[shard]
            while not worker.inbox:
                self._listen([worker])
            item = self._taken(worker, worker.inbox.popleft())
            if isinstance(item, Step):
                waiting.append(shard)
            yield item
            del item

    def _as_they_come(self, owners: dict[int, Worker]) -> Iterator[Step | ShardEnd]:
        left = len(owners)
        workers = deque(self.workers)
        while left:
            while not any(worker.inbox for worker in workers):
                self._listen(self.workers)
            while not workers[0].inbox:
                workers.rotate(-1)
            item = self._taken(workers[0], workers[0].inbox.popleft())
            workers.rotate(-1)
            left -= isinstance(item, ShardEnd)
            yield item
            del item

    def _taken(self, worker: Worker, message: Message) -> Step | ShardEnd:
        """What a message means; from here on the consumer has it."""
        kind = message.head[0]
        if kind == "failed":
            raise failure(message)
        _, _, shard, cursor, places, sizes = cast("tuple[str, int, int, Json, Sequence[Place], Sizes]", message.head)
        if kind == "step":
            if len(sizes) > 1 and not places:
                self._pool.tell_crowded()
            step = Step(worker.element(message), shard, cursor)
            self._given[worker.number] += 1
            self._mark(self._states, message)
            return step
        self._mark(self._states, message)
        if sizes:
            self._leftovers[shard] = bytes(message.body), sizes
        return ShardEnd(shard, cursor)

    def _listen(self, waited_for: list[Worker]) -> None:
        for worker in self._pool.listen(waited_for):
            self._pool.replace(worker, self._doing(worker))
            if not self._in_tail or worker is self.workers[0]:
                worker.order(self._order(worker))

    def _order(self, worker: Worker) -> Order:
        """What is left for a worker to do, behind all that has come from it."""
        states = dict(self._states)
        for message in worker.inbox:
            self._mark(states, message)
        return Order(
            run=self._run,
            terms=self._terms,
            epoch=self._epoch,
            position=Position(self._start, states),
            worker=worker.number,
            workers=len(self.workers),
            given=self._come(worker),
            waiting=worker.waiting,
            leftovers=self._leftovers if self._in_tail else None,
            careful=worker.deaths > 1,
        )

    def _mark(self, states: dict[int, ShardState], message: Message) -> None:
        if message.head[0] != "failed" and not self._plan.indexed:
            kind, _, shard, cursor, *_ = cast("tuple[str, int, int, Json]", message.head)
            states[shard] = ShardState(cursor) if kind == "step" else ShardState(None, True, cursor)

    def _come(self, worker: Worker) -> int:
        """Of an indexed pipe: how many elements of a worker's share have come."""
        return self._given[worker.number] + worker.waiting

    def _doing(self, worker: Worker) -> str:
        """The element that a worker was making, as well as that can be known from here."""
        plan, order = self._plan, self._order(worker)
        if plan.indexed:
            place = worker.number + self._come(worker) * len(self.workers)
            return f"element {self._start + plan.rank + plan.world_size * place} of the epoch"
        if self._in_tail:
            running = {plan.tail_shard: Cursor.of(order.position.of(plan.tail_shard).cursor)}
        else:
            running = plan.running(order.position, worker.number, len(self.workers))
        if not running:
            return "nothing"
        shard = turn_order(running)[0]
        return f"element {running[shard].position} of shard {shard}"
