"""The executor of `Ray`: the actors of one loader, and its sessions."""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from .actor_pool import ActorPool
from .actor_run import ActorRun


class RayExecutor:
    """The actors of one loader."""

    def __init__(self, pool: ActorPool) -> None:
        self._pool = pool
        self._runs = 0

    def open(self, plan: Plan, position: Position, epoch: int) -> RaySession:
        self._runs += 1
        return RaySession(ActorRun(self._pool, plan, position, epoch, self._runs))

    def close(self) -> None:
        self._pool.close()


class RaySession:
    """One run of a plan by actors, which outlive it."""

    def __init__(self, run: ActorRun) -> None:
        self._workers = run.workers
        # The generator refers to the run and the run not to the generator: a dropped session is freed at once.
        self._items = run.items()

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def close(self) -> None:
        self._items.close()
        for handle in self._workers:
            handle.cancel()
