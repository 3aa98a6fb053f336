"""`InProcess`: runs a plan in this process."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from ..core.context import ProcessResources
from ..core.wrong_arguments import methods_explain_wrong_arguments
from ..plan.plan import Plan, Position
from .base import ShardEnd, Step
from .executor import RunExecutor
from .round_robin import DEBUG, DEFAULT, Mode, run_rank


@methods_explain_wrong_arguments
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
        try:
            yield from run_rank(self._plan, self._position, self._epoch, self._mode, self._resources)
        finally:
            self._resources.close()

    def close(self) -> None:
        self._resources.join()
