"""What a reading service is: a description, of which each loader starts an executor that runs its plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ..core.cursor import Json
from ..core.rows import BlockRows
from ..plan.plan import Plan, Position


class Step(NamedTuple):
    """One element, the shard it belongs to, and the shard's cursor after it, plain."""

    element: object
    shard: int
    cursor: Json


class ShardEnd(NamedTuple):
    """A shard has no more elements; where its leftover begins, if it has one, and its rows where they are at hand."""

    shard: int
    leftover: Json = None
    rows: BlockRows | None = None


class Session(Protocol):
    """One run of a plan: iterate it, close it."""

    def __iter__(self) -> Iterator[Step | ShardEnd]: ...
    def close(self) -> None: ...


class Executor(Protocol):
    """What one loader has of a service, such as processes; it has one session at a time."""

    def open(self, plan: Plan, position: Position, epoch: int) -> Session: ...
    def close(self) -> None: ...


class ReadingService(Protocol):
    """Describes where a plan runs; several loaders may use one."""

    @property
    def workers(self) -> int:
        """How many worker processes; 0 for none."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether elements come in the order of the plan; else there is no position to save."""
        ...

    def start(self) -> Executor: ...
