"""The contract of a reading service, and `PlanService`, which each service gives a loader."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple, Protocol

from ..core.checks import check_bytes, check_callable, check_int, check_seconds
from ..core.cursor import Json
from ..core.ending import Closing
from ..core.rows import BlockRows
from ..plan.plan import Plan, Position


class Step(NamedTuple):
    """One element.

    Attributes:
        element: what the pipe gives.
        shard: the shard that it belongs to.
        cursor: where the shard continues after it, as plain values. If the plan has accounts of a ledger, a fourth
            value has the numbers of the element, as `RowCounts.packed` makes them.
    """

    element: object
    shard: int
    cursor: Json


class ShardEnd(NamedTuple):
    """A shard has no more elements.

    Attributes:
        shard: its number.
        leftover: where its leftover begins, as plain values; None if it has none.
        rows: the rows of the leftover, if they are at hand.
    """

    shard: int
    leftover: Json = None
    rows: BlockRows | None = None


class SpanEnd(NamedTuple):
    """A worker has no more elements of a span of a shard.

    Attributes:
        span: its number.
    """

    span: int


class Session(Protocol):
    """One run of a plan: iterate it, then close it."""

    def __iter__(self) -> Iterator[Step | ShardEnd]: ...
    def close(self) -> None: ...


class Executor(Protocol):
    """What a service holds for one loader, such as processes. It has one run at a time."""

    def open(self, plan: Plan, position: Position, epoch: int) -> Session: ...
    def close(self) -> None: ...


class ReadingService(Protocol):
    """Describes where plans run. Several loaders may share one. Elements come in the order of the plan."""

    @property
    def workers(self) -> int:
        """The number of workers beside this thread; 0 if the consumer itself runs the plan."""
        ...

    @property
    def global_generators(self) -> bool:
        """Whether functions may seed the global generators: nothing else that draws runs in the process meanwhile."""
        ...

    def start(self) -> Executor: ...


class ServiceRun(Protocol):
    """One run of a plan."""

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements and the ends of shards. It is called once."""
        ...

    def close(self) -> None:
        """End what is left after `items` was closed, and wait for its threads; again after an interrupt."""
        ...


class PlanService:
    """Opens the runs of one loader, made by `make_run` of a plan, a position and a pass; it closes their pool."""

    def __init__(self, make_run: Callable[[Plan, Position, int], ServiceRun], pool: Closing | None = None) -> None:
        self._make_run = make_run
        self._pool = pool

    def open(self, plan: Plan, position: Position, epoch: int) -> PlanRun:
        return PlanRun(self._make_run(plan, position, epoch))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


class PlanRun:
    """One run; `close` waits for its threads."""

    def __init__(self, run: ServiceRun) -> None:
        self._run = run
        self._items = run.items()

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def close(self) -> None:
        try:
            self._items.close()
        finally:
            self._run.close()


def check_arguments(*, prefetch: object, memory: int | str | None, timeout: object, init: object = None) -> None:
    """Check the arguments that several services take, if they are given.

    Raises:
        ArgumentError, ArgumentTypeError: one is out of its range or of the wrong type.
    """
    if prefetch is not None:
        check_int("prefetch", prefetch, least=1)
    if memory is not None:
        check_bytes("memory", memory)
    if init is not None:
        check_callable("init", init)
    if timeout is not None:
        check_seconds("timeout", timeout)
