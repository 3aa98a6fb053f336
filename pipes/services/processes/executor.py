"""What one loader has of `MultiProcess`: its processes, and the run that they are at."""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from .merge import Merge
from .pool import Pool


class MultiProcessExecutor:
    """The processes of one loader."""

    def __init__(self, pool: Pool, *, ordered: bool) -> None:
        self._pool = pool
        self._ordered = ordered
        self._runs = 0

    def open(self, plan: Plan, position: Position, epoch: int) -> MultiProcessSession:
        self._runs += 1
        return MultiProcessSession(Merge(self._pool, plan, position, epoch, self._runs), ordered=self._ordered)

    def close(self) -> None:
        self._pool.close()


class MultiProcessSession:
    """One run of a plan by worker processes. They outlast it."""

    def __init__(self, merge: Merge, *, ordered: bool) -> None:
        self._workers = merge.workers
        self._steps = merge.run(ordered=ordered)  # holds the merge, and that not it: what is dropped is freed at once

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._steps

    def close(self) -> None:
        self._steps.close()
        for worker in self._workers:
            worker.drop()
