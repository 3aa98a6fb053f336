"""`InProcess`: runs a plan in this process."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from ..core.context import ProcessResources
from ..plan.plan import Plan, Position
from .base import ShardEnd, Step
from .round_robin import DEBUG, DEFAULT, Mode, run_shards


@dataclass(frozen=True)
class InProcess:
    """Runs a pipe in this process.

    Args:
        debug: everything in the calling thread, one row at a time: breakpoints work, and an error comes at its row.

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

    def start(self) -> InProcessExecutor:
        return InProcessExecutor(DEBUG if self.debug else DEFAULT)


class InProcessExecutor:
    """Opens sessions in this process; has nothing of its own to end."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    def open(self, plan: Plan, position: Position, epoch: int) -> InProcessSession:
        return InProcessSession(plan, position, epoch, self._mode)

    def close(self) -> None:
        pass


class InProcessSession:
    """One run in this process. It ends when it is closed or dropped; closing waits for its threads."""

    def __init__(self, plan: Plan, position: Position, epoch: int, mode: Mode) -> None:
        self._shared = ProcessResources()
        self._steps = _steps(plan, position, epoch, mode, self._shared)

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._steps

    def close(self) -> None:
        self._steps.close()
        self._shared.join()


def _steps(
    plan: Plan, position: Position, epoch: int, mode: Mode, shared: ProcessResources
) -> Generator[Step | ShardEnd]:  # no method: a session that is dropped is freed at once
    try:
        ended = yield from run_shards(plan, plan.parts(position), epoch, mode, shared)
        position = position.after({one.shard: one.leftover for one in ended})
        tail = plan.tail(position, {one.shard: one.rows for one in ended if one.rows is not None})
        if tail is not None:
            yield from run_shards(plan, [tail], epoch, mode, shared)
    finally:
        shared.close()
