"""`KeyedRun`: one run in which workers make an element for each key of their owner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..core.cursor import Json

_NO_KEY = object()


class Numbered(Protocol):
    """The handle of a worker."""

    @property
    def number(self) -> int: ...


H = TypeVar("H", bound=Numbered)


class SentKey(NamedTuple):
    """A key that a worker has got, and whose element was not taken.

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
        position: where it stands after the last element that the consumer took.
        keys: what it has got, in order.
    """

    handle: H
    position: Json
    keys: deque[SentKey] = field(default_factory=deque)


class KeyedRun(ABC, Generic[H]):
    """The elements of keys, which workers make: an iterator.

    The workers get keys in turn. After an error of the user's code, the run goes on with the next key. When a worker
    dies, the next one in its place gets the keys without an answer.

    Args:
        handles: the workers, by number.
        keys: read as far ahead as `ahead` says.
        turns: the workers that have not ended, in the order in which they get keys.
        positions: where each worker stands; None for one that begins.
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
        """Ends the run; the workers go on living."""

    @abstractmethod
    def _send(self, lane: Lane[H], number: int, key: object) -> Any:
        """Sends a worker the key of the element with that number, without waiting."""

    def __iter__(self) -> KeyedRun[H]:
        return self

    @property
    def positions(self) -> list[Json]:
        """Where each worker stands after the elements that the consumer took."""
        return [lane.position for lane in self._lanes]

    @property
    def turns(self) -> list[int]:
        """The workers that have not ended, in the order of their next elements."""
        return [lane.handle.number for lane in self._turns]

    def _send_keys(self) -> None:
        """Sends keys as long as the next worker has fewer than `ahead`; without an order, as long as any has."""
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
