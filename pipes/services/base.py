"""The contract of a reading service: it describes where plans run, and starts an executor for each loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ..core.cursor import Json
from ..core.rows import BlockRows
from ..plan.plan import Plan, Position


class Step(NamedTuple):
    """One element.

    Attributes:
        element: what the pipe gives.
        shard: the shard that it belongs to.
        cursor: where the shard continues after it, as plain values.
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


class Session(Protocol):
    """One run of a plan: iterate it, then close it."""

    def __iter__(self) -> Iterator[Step | ShardEnd]: ...
    def close(self) -> None: ...


class Executor(Protocol):
    """What a service holds for one loader, such as processes. It has one session at a time."""

    def open(self, plan: Plan, position: Position, epoch: int) -> Session: ...
    def close(self) -> None: ...


class ReadingService(Protocol):
    """Describes where plans run. Several loaders may share one."""

    @property
    def workers(self) -> int:
        """How many workers run the plan beside this thread; 0 if the consumer itself runs it."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether elements come in the order of the plan. Without an order there is no position to save."""
        ...

    @property
    def global_generators(self) -> bool:
        """Whether functions may seed the global generators: nothing else that draws runs in the process meanwhile."""
        ...

    def start(self) -> Executor: ...
