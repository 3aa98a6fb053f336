"""`FetchRun`: one run in which worker processes make an element for each key of their owner."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from ...core.cursor import Json
from ...core.graph import Node
from ..fetching import FetchRequest
from ..transport.channel import Message
from .pool import Pool
from .protocol import ItemHead, unpack_error
from .worker_handle import WorkerHandle

_NO_KEY = object()


@dataclass
class _WorkerLane:
    """The part of one worker in a run.

    Attributes:
        handle: the worker.
        position: where it stands after the last element that the consumer took.
        keys: the keys without an answer that was taken, each with the number of its element.
    """

    handle: WorkerHandle
    position: Json
    keys: deque[tuple[int, object]] = field(default_factory=deque)


class FetchRun:
    """The elements of `keys`, in their order, or as they arrive.

    The workers get keys in turn. After an error of the user's code, the run goes on with the next key. When a worker
    dies, the next process gets the keys without an answer.

    Args:
        pool: the workers.
        root: the graph, a `FetchSource`.
        keys: the keys, read as far ahead as `ahead` says.
        turns: the workers that have not ended, in the order in which they get keys.
        positions: where each worker stands; None for one that begins.
        number: of the run, unique for the pool.
        first: the number of the first element.
        seed: for the fetchers.
        ahead: keys without an answer for each worker.
        ordered: whether elements come in the order of the keys.
    """

    def __init__(
        self,
        pool: Pool,
        root: Node,
        keys: Iterator[object],
        turns: Sequence[int],
        positions: Sequence[Json],
        *,
        number: int,
        first: int,
        seed: int,
        ahead: int,
        ordered: bool,
    ) -> None:
        self._pool = pool
        self._keys = keys
        self._number = number
        self._next_number = first
        self._seed = seed
        self._ahead = ahead
        self._ordered = ordered
        self._lanes = [_WorkerLane(*pair) for pair in zip(pool.ready(root), positions, strict=True)]
        self._turns = deque(self._lanes[worker] for worker in turns)  # whose element is next
        self._askable = deque(self._turns)  # who gets the next key
        for lane in self._turns:
            lane.handle.begin(number)
            self._begin(lane)
        self._send_keys()

    @property
    def positions(self) -> list[Json]:
        """Where each worker stands after the elements that the consumer took."""
        return [lane.position for lane in self._lanes]

    @property
    def turns(self) -> list[int]:
        """The workers that have not ended, in the order of their next elements."""
        return [lane.handle.number for lane in self._turns]

    def __iter__(self) -> FetchRun:
        return self

    def __next__(self) -> object:
        while any(lane.keys for lane in self._turns):
            lane = self._lane_of_next()
            lane.keys.popleft()
            message = lane.handle.inbox.popleft()
            kind = message.head[0]
            if kind == "ended":
                self._end_lane(lane)
                continue
            self._turns.rotate(-1)
            try:
                if kind == "failed":
                    raise unpack_error(message)
                _, _, _, lane.position, places, sizes = cast("ItemHead", message.head)
                if len(sizes) > 1 and not places:
                    self._pool.warn_of_full_memory()
                return lane.handle.element(message)
            finally:
                self._send_keys()
        raise StopIteration

    def close(self) -> None:
        """Ends the run; the workers go on living."""
        for lane in self._lanes:
            lane.handle.cancel()

    def _lane_of_next(self) -> _WorkerLane:
        """The worker of the next answer, which is in its inbox; it comes to the front of the turns."""
        if self._ordered:
            lane = self._turns[0]
            while not lane.handle.inbox:
                self._listen([lane])
            return lane
        while not any(lane.handle.inbox for lane in self._turns):
            self._listen(list(self._turns))
        while not self._turns[0].handle.inbox:
            self._turns.rotate(-1)
        return self._turns[0]

    def _send_keys(self) -> None:
        """Sends keys to the workers, in turn, as long as the next one has fewer than `ahead` without an answer."""
        for _ in range(len(self._askable) * self._ahead):
            lane = self._askable[0]
            if len(lane.keys) < self._ahead:
                key = next(self._keys, _NO_KEY)
                if key is _NO_KEY:
                    return
                lane.keys.append((self._next_number, key))
                lane.handle.post(("fetch", self._number, self._next_number, key))
                self._next_number += 1
            elif self._ordered:
                return
            self._askable.rotate(-1)

    def _end_lane(self, lane: _WorkerLane) -> None:
        """A worker has no further elements, so it gets no further keys, and no turns."""
        lane.keys.clear()
        self._turns.remove(lane)
        self._askable.remove(lane)
        self._send_keys()

    def _listen(self, lanes: list[_WorkerLane]) -> None:
        for handle in self._pool.listen([lane.handle for lane in lanes]):
            lane = self._lanes[handle.number]
            answers = len(handle.inbox)
            number, key = lane.keys[min(answers, len(lane.keys) - 1)]
            self._pool.replace(handle, f"element {number}, of {key!r:.200}")
            self._begin(lane)
            for number, key in list(lane.keys)[answers:]:
                handle.post(("fetch", self._number, number, key))

    def _begin(self, lane: _WorkerLane) -> None:
        """Has a worker go on after what has arrived from it."""
        handle = lane.handle
        position = lane.position
        for message in handle.inbox:
            position = _position_after(message, position)
        workers = len(self._lanes)
        handle.request(FetchRequest(self._number, handle.number, workers, self._seed, position, handle.waiting))


def _position_after(message: Message, position: Json) -> Json:
    return cast("ItemHead", message.head)[3] if message.head[0] == "step" else position
