"""What a worker runs if its owner sends a key for each element: a `FetchSource` and its `Fetcher`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Operator, StageView


class FetchRequest(NamedTuple):
    """Begins a run in which the owner sends a key for each element.

    Attributes:
        run: its number, which each answer repeats.
        worker, workers: the number of the worker, and how many there are.
        seed: of the run.
        position: where the worker stands, as its fetcher said it; None at the beginning.
        waiting: elements that an earlier process has sent and the consumer has not taken.
    """

    run: int
    worker: int
    workers: int
    seed: int
    position: Json
    waiting: int


class FetchEnd(Exception):  # noqa: N818 - it ends a run, as StopIteration does
    """A fetcher has no further elements, whatever the key."""


class Fetcher(Protocol):
    """Makes elements in one process."""

    def begin(self, request: FetchRequest) -> None:
        """Begins a run at the position of the request."""
        ...

    def fetch(self, number: int, key: object) -> object:
        """The element of a key, the `number`-th of the run over all workers.

        Raises:
            FetchEnd: there is none, and there will be none.
        """
        ...

    def position(self) -> Json:
        """Where the run stands after the last element, for `begin`."""
        ...


@dataclass(frozen=True)
class FetchSource(Operator):
    """An operator that needs a key for each element, so no plan can run it."""

    def fetcher(self, request: FetchRequest) -> Fetcher:
        """The fetcher of this process, which is about to begin its first run."""
        raise NotImplementedError

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        raise AssertionError(f"{self.kind} makes an element only of a key")
