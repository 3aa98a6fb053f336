"""`RunExecutor`: what a service holds for one loader, whatever makes the elements."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from ..core.context import Closing
from ..plan.plan import Plan, Position
from .base import ShardEnd, Step


class PlanRun(Protocol):
    """One run of a plan."""

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements and the ends of shards. It is called once."""
        ...

    def close(self) -> None:
        """Ends what is left after `items` was closed, and waits for its threads."""
        ...


class RunExecutor:
    """Opens the runs of one loader.

    Args:
        make_run: makes a run of a plan, from a position on, in a pass over the data.
        pool: the workers that all runs use; the executor closes them.
    """

    def __init__(self, make_run: Callable[[Plan, Position, int], PlanRun], pool: Closing | None = None) -> None:
        self._make_run = make_run
        self._pool = pool

    def open(self, plan: Plan, position: Position, epoch: int) -> RunSession:
        return RunSession(self._make_run(plan, position, epoch))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


class RunSession:
    """One run. It ends when it is closed or dropped; `close` waits for its threads."""

    def __init__(self, run: PlanRun) -> None:
        self._run = run
        # The generator refers to the run, and the run not to the generator: a dropped session is freed at once.
        self._items = run.items()

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def close(self) -> None:
        self._items.close()
        self._run.close()
