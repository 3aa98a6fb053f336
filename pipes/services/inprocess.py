"""`InProcess`: runs a plan in this process."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from ..core.context import ProcessResources
from ..core.unknown_arguments import methods_explain_unknown_arguments
from ..plan.plan import Plan, Position
from .base import ShardEnd, Step
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

    def start(self) -> InProcessExecutor:
        return InProcessExecutor(DEBUG if self.debug else DEFAULT)


class InProcessExecutor:
    """Opens sessions in this process. It holds nothing, so there is nothing to close."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    def open(self, plan: Plan, position: Position, epoch: int) -> InProcessSession:
        return InProcessSession(plan, position, epoch, self._mode)

    def close(self) -> None:
        pass


class InProcessSession:
    """One run in this process. It ends when it is closed or dropped; `close` waits for its threads."""

    def __init__(self, plan: Plan, position: Position, epoch: int, mode: Mode) -> None:
        self._resources = ProcessResources()
        self._items = _items(plan, position, epoch, mode, self._resources)

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def close(self) -> None:
        self._items.close()
        self._resources.join()


def _items(
    plan: Plan, position: Position, epoch: int, mode: Mode, resources: ProcessResources
) -> Generator[Step | ShardEnd]:  # no method: without a reference to the session, a dropped session is freed at once
    try:
        ends = yield from run_shards(plan, plan.parts(position), epoch, mode, resources)
        position = position.after({end.shard: end.leftover for end in ends})
        tail = plan.tail(position, {end.shard: end.rows for end in ends if end.rows is not None})
        if tail is not None:
            yield from run_shards(plan, [tail], epoch, mode, resources)
    finally:
        resources.close()
