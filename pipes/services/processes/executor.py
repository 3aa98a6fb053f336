"""The executor of `MultiProcess`: the processes of one loader, and its sessions."""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.plan import Plan, Position
from ..base import ShardEnd, Step
from .pool import Pool, PoolSettings
from .run import ProcessRun


class MultiProcessExecutor:
    """The processes of one loader."""

    def __init__(self, settings: PoolSettings, *, ordered: bool) -> None:
        self._pool = Pool(settings)
        self._ordered = ordered
        self._runs = 0

    def open(self, plan: Plan, position: Position, epoch: int) -> MultiProcessSession:
        self._runs += 1
        return MultiProcessSession(ProcessRun(self._pool, plan, position, epoch, self._runs), ordered=self._ordered)

    def close(self) -> None:
        self._pool.close()


class MultiProcessSession:
    """One run of a plan by worker processes, which outlive it."""

    def __init__(self, run: ProcessRun, *, ordered: bool) -> None:
        self._workers = run.workers
        # The generator refers to the run and the run not to the generator: a dropped session is freed at once.
        self._items = run.items(ordered=ordered)

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def close(self) -> None:
        self._items.close()
        for handle in self._workers:
            handle.cancel()
