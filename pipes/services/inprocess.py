"""`InProcess`: runs a plan in this process."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from ..core.context import ProcessResources
from ..core.unknown_arguments import methods_explain_unknown_arguments
from ..plan.plan import Plan, Position
from .base import ShardEnd, Step
from .executor import RunExecutor
from .round_robin import DEBUG, DEFAULT, Mode, run_shards


@methods_explain_unknown_arguments
@dataclass(frozen=True)
class InProcess:
    """Runs a pipe in this process.

    Args:
        debug: run everything in the calling thread, one row at a time. Breakpoints work, and an error comes exactly
            at its row.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.Loader(fp.from_sequence("ab"), fp.InProcess(debug=True)))
        ['a', 'b']
    """

    debug: bool = False

    @property
    def workers(self) -> int:
        return 0

    @property
    def ordered(self) -> bool:
        return True

    @property
    def global_generators(self) -> bool:
        return True

    def start(self) -> RunExecutor:
        mode = DEBUG if self.debug else DEFAULT
        return RunExecutor(lambda plan, position, epoch: InProcessRun(plan, position, epoch, mode))


class InProcessRun:
    """One run in this process."""

    def __init__(self, plan: Plan, position: Position, epoch: int, mode: Mode) -> None:
        self._plan = plan
        self._position = position
        self._epoch = epoch
        self._mode = mode
        self._resources = ProcessResources()

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        plan, resources = self._plan, self._resources
        try:
            ends = yield from run_shards(plan, plan.parts(self._position), self._epoch, self._mode, resources)
            position = self._position.after({end.shard: end.leftover for end in ends})
            tail = plan.tail(position, {end.shard: end.rows for end in ends if end.rows is not None})
            if tail is not None:
                yield from run_shards(plan, [tail], self._epoch, self._mode, resources)
        finally:
            resources.close()

    def close(self) -> None:
        self._resources.join()
