"""What a reading service is: `open` a plan at a position, and iterate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ..cursor import Json
from ..plan.plan import Plan, Position


class Step(NamedTuple):
    """One element, the shard it belongs to, and the shard's cursor after it, plain."""

    element: object
    shard: int
    cursor: Json


class Ended(NamedTuple):
    """A shard has no more elements; the cursor where its leftover begins, plain, if it has one."""

    shard: int
    leftover: Json


class Session(Protocol):
    """One run of a plan: iterate it, close it."""

    def __iter__(self) -> Iterator[Step | Ended]: ...
    def close(self) -> None: ...


class ReadingService(Protocol):
    """Describes where a plan runs; each loader opens its own sessions."""

    @property
    def workers(self) -> int:
        """How many worker processes; 0 for none."""
        ...

    def open(self, plan: Plan, position: Position, epoch: int) -> Session: ...
