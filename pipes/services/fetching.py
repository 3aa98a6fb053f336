"""Elements by key: what a dataset of torch needs, which has a sampler in place of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Operator, StageView
from .base import ShardEnd, Step


class FetchRequest(NamedTuple):
    """Begins a run in which the owner sends a key for each element.

    `position` is that of the worker, from its fetcher; None at the beginning. `waiting` counts elements that an earlier
    process has sent and the consumer has not taken.
    """

    run: int
    worker: int
    workers: int
    seed: int
    position: Json
    waiting: int


class FetchEnd(Exception):  # noqa: N818 - it ends a run, as StopIteration does
    """A fetcher has no further elements, for any key."""


class Fetcher(Protocol):
    """Makes elements in one process."""

    def begin(self, request: FetchRequest) -> None:
        """Begin a run at the position of the request."""
        ...

    def fetch(self, number: int, key: object) -> object:
        """The element of a key, the `number`-th of the run over all workers.

        Raises:
            FetchEnd: there is none, and there will be none.
        """
        ...

    def position(self) -> Json:
        """The position of the run after the last element, or at its end, for `begin`."""
        ...


def fetched(fetcher: Fetcher, number: int, key: object, worker: int) -> Step | ShardEnd:
    """The element of a key, or the end, with the position after it."""
    try:
        element = fetcher.fetch(number, key)
    except FetchEnd:
        return ShardEnd(worker, fetcher.position())
    return Step(element, worker, fetcher.position())


@dataclass(frozen=True, eq=False, repr=False)
class FetchSource(Operator):
    """An operator that needs a key for each element, so no plan can run it."""

    def fetcher(self, request: FetchRequest) -> Fetcher:
        """The fetcher of this process, which is about to begin its first run."""
        raise NotImplementedError

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        raise AssertionError(f"{self.kind} makes an element only of a key")
