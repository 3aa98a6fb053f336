"""What workers of processes and of Ray share: their arguments, elements by key, and their deaths."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.graph import Node
from ..core.operator import Operator, StageView
from ..errors import CallSite, Origin, WorkerError, WorkerWarning, warn
from ..plan.plan import Plan
from .base import ShardEnd, Step

_NO_KEY = object()


class Numbered(Protocol):
    """The handle of a worker."""

    @property
    def number(self) -> int: ...


H = TypeVar("H", bound=Numbered)


class SentKey(NamedTuple):
    """A key that a worker has, and whose element was not taken.

    Attributes:
        number: of its element.
        call: what sending the key returned.
    """

    number: int
    key: object
    call: Any

    def __str__(self) -> str:
        return f"element {self.number}, of {self.key!r:.200}"


@dataclass(eq=False)
class Lane(Generic[H]):
    """The part of one worker in a run.

    Attributes:
        handle: the worker.
        position: of the worker, after the last element that the consumer took.
        keys: those that it has, in order.
    """

    handle: H
    position: Json
    keys: deque[SentKey] = field(default_factory=deque)


class KeyedRun(ABC, Generic[H]):
    """The elements of keys, which workers make: an iterator.

    The workers get keys in turn. After an error of the user's code, the run continues with the next key. When a worker
    dies, the next one in its place gets the keys without an answer.

    Args:
        handles: the workers, by number.
        keys: read as far ahead as `ahead` says.
        turns: the workers that have not ended, in the order in which they get keys.
        positions: that of each worker; None for one that begins.
        first: the number of the first element.
        ahead: keys that each worker has at most.
        ordered: whether elements come in the order of the keys.
    """

    def __init__(
        self,
        handles: Sequence[H],
        keys: Iterator[object],
        turns: Sequence[int],
        positions: Sequence[Json],
        *,
        first: int,
        ahead: int,
        ordered: bool = True,
    ) -> None:
        self._lanes = [Lane(*pair) for pair in zip(handles, positions, strict=True)]
        self._turns = deque(self._lanes[worker] for worker in turns)  # whose element is next
        self._askable = deque(self._turns)  # who gets the next key
        self._keys = keys
        self._next_number = first
        self._ahead = ahead
        self._ordered = ordered

    @abstractmethod
    def __next__(self) -> object: ...

    @abstractmethod
    def close(self) -> None:
        """End the run. The workers stay."""

    @abstractmethod
    def _send(self, lane: Lane[H], number: int, key: object) -> Any:
        """Send a worker the key of the element with that number, without waiting."""

    def __iter__(self) -> KeyedRun[H]:
        return self

    @property
    def positions(self) -> list[Json]:
        """The position of each worker, after the elements that the consumer took."""
        return [lane.position for lane in self._lanes]

    @property
    def turns(self) -> list[int]:
        """The workers that have not ended, in the order of their next elements."""
        return [lane.handle.number for lane in self._turns]

    def _send_keys(self) -> None:
        """Send keys as long as the next worker has fewer than `ahead`; without an order, as long as any has."""
        for _ in range(len(self._askable) * self._ahead):
            lane = self._askable[0]
            if len(lane.keys) < self._ahead:
                key = next(self._keys, _NO_KEY)
                if key is _NO_KEY:
                    return
                lane.keys.append(SentKey(self._next_number, key, self._send(lane, self._next_number, key)))
                self._next_number += 1
            elif self._ordered:
                return
            self._askable.rotate(-1)

    def _end_lane(self, lane: Lane[H]) -> None:
        """A worker has no further elements, so it gets no further keys, and no turns."""
        lane.keys.clear()
        self._turns.remove(lane)
        self._askable.remove(lane)
        self._send_keys()


# Elements by key, in a worker.


class FetchRequest(NamedTuple):
    """Begins a run in which the owner sends a key for each element.

    Attributes:
        run: its number, which each answer repeats.
        worker, workers: the number of the worker, and how many there are.
        seed: of the run.
        position: of the worker, from its fetcher; None at the beginning.
        waiting: elements that an earlier process has sent and the consumer has not taken.
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


@dataclass(frozen=True)
class FetchSource(Operator):
    """An operator that needs a key for each element, so no plan can run it."""

    def fetcher(self, request: FetchRequest) -> Fetcher:
        """The fetcher of this process, which is about to begin its first run."""
        raise NotImplementedError

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        raise AssertionError(f"{self.kind} makes an element only of a key")


class PlanArguments(NamedTuple):
    """What makes a plan of the graph."""

    seed: int
    rank: int
    world_size: int
    shards: int

    @staticmethod
    def of(plan: Plan) -> PlanArguments:
        return PlanArguments(plan.seed, plan.rank, plan.world_size, plan.shards)

    def plan(self, root: Node) -> Plan:
        seed, rank, world_size, shards = self
        return Plan(root, seed=seed, rank=rank, world_size=world_size, workers=0, shards=shards or None)

    def worker_seed(self, epoch: int, worker: int) -> int:
        """The seed of the global generators in a worker in this epoch."""
        words = repr((self.seed, epoch, self.rank, worker)).encode()
        return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "little")


# Deaths of workers.


MAX_DEATHS = 3
"""The workers in a row that may die at one element."""


def report_death(deaths: int, message: str, frames: str = "") -> None:
    """Warn of a death, or raise an error, with the last frames, if too many workers have died in this place."""
    if deaths >= MAX_DEATHS:
        frames = frames and f"\nits last call was:\n{frames}"
        raise WorkerError(f"{message}; it has died there {deaths} times, so it is not started again{frames}")
    warn(f"{message}; it is started again from there, nothing is lost", WorkerWarning)


class CrashNote:
    """Notes the operator that runs, and its row.

    Args:
        write: keeps the note where it survives the process.
        after_row: called when an operator has made a row, while the note still names that operator.
    """

    def __init__(self, write: Callable[[str], None], after_row: Callable[[], None] | None = None) -> None:
        self._write_note = write
        self._after_row = after_row
        self._running: list[tuple[str, CallSite | None, Origin | None]] = []

    def enter(self, operator: str, call_site: CallSite | None, origin: Origin | None = None) -> None:
        """An operator, shown as its call, starts to make a row."""
        self._running.append((operator, call_site, origin))
        self._write()

    def leave(self, origin: Origin | None) -> None:
        """The operator has made a row from `origin`, and the operator that asked for it continues."""
        if self._after_row is not None:
            self._after_row()
        self._running.pop()
        if self._running:
            operator, call_site, before = self._running.pop()
            self._running.append((operator, call_site, origin or before))
        self._write()

    def _write(self) -> None:
        text = ""
        if self._running:
            operator, call_site, origin = self._running[-1]
            text = f"`{operator}`"
            text += f"\n  on {origin}" if origin else ""
            text += f"\n  at {call_site.file}:{call_site.line}" if call_site else ""
        self._write_note(text)
