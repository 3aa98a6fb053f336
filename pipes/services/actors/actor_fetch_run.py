"""`ActorFetchRun`: one run in which actors make an element for each key of their owner."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...core.cursor import Json
from ...core.graph import Node
from ..fetching import FetchRequest
from ..transport.remote_error import RemoteFailure
from .actor_handle import ActorHandle
from .actor_pool import ActorPool
from .burst import BurstItem, burst_items
from .protocol import LOST, unpack_parts

_NO_KEY = object()


@dataclass
class _ActorLane:
    """The part of one actor in a run.

    Attributes:
        handle: the actor.
        position: where it stands after the last element that the consumer took.
        keys: the keys without an answer that was taken, each with the number of its element and its call.
    """

    handle: ActorHandle
    position: Json
    keys: deque[tuple[int, object, Any]] = field(default_factory=deque)


class ActorFetchRun:
    """The elements of `keys`, in their order; `FetchRun` does the same with processes, and explains the arguments.

    The actors get keys in turn. After an error of the user's code, the run goes on with the next key. When an actor
    dies, the next one gets the keys without an answer.
    """

    def __init__(
        self,
        pool: ActorPool,
        root: Node,
        keys: Iterator[object],
        turns: Sequence[int],
        positions: Sequence[Json],
        *,
        number: int,
        first: int,
        seed: int,
        ahead: int,
    ) -> None:
        self._pool = pool
        self._keys = keys
        self._number = number
        self._next_number = first
        self._seed = seed
        self._ahead = ahead
        self._lanes = [_ActorLane(*pair) for pair in zip(pool.ready(root), positions, strict=True)]
        self._turns = deque(self._lanes[worker] for worker in turns)  # whose element is next
        self._askable = deque(self._turns)  # who gets the next key
        for lane in self._turns:
            lane.handle.deaths = 0
            self._begin(lane)
        self._send_keys()

    @property
    def positions(self) -> list[Json]:
        """Where each actor stands after the elements that the consumer took."""
        return [lane.position for lane in self._lanes]

    @property
    def turns(self) -> list[int]:
        """The actors that have not ended, in the order of their next elements."""
        return [lane.handle.number for lane in self._turns]

    def __iter__(self) -> ActorFetchRun:
        return self

    def __next__(self) -> object:
        while self._turns and self._turns[0].keys:
            lane = self._turns[0]
            item = self._receive(lane)
            lane.keys.popleft()
            if item.kind == "ended":
                self._end_lane(lane)
                continue
            self._turns.rotate(-1)
            try:
                if item.kind == "failed":
                    raise cast("RemoteFailure", unpack_parts(item.parts)).to_exception()
                lane.position = item.cursor
                return unpack_parts(item.parts)
            finally:
                self._send_keys()
        raise StopIteration

    def close(self) -> None:
        """Ends the run; the actors go on living, and end the calls that they have got."""
        for lane in self._lanes:
            lane.keys.clear()

    def _receive(self, lane: _ActorLane) -> BurstItem:
        """The answer to the first key of a lane. It waits, and replaces actors that die."""
        self._pool.check_owner()
        timeout = self._pool.settings.timeout
        while True:
            number, key, call = lane.keys[0]
            making = f"element {number}, of {key!r:.200}"
            try:
                (item,) = burst_items(ray.get(call, timeout=timeout))
            except ray.exceptions.GetTimeoutError as error:
                raise lane.handle.timeout_error(timeout, making) from error
            except LOST as error:
                self._pool.replace(lane.handle, making, error)
                self._begin(lane)
            else:
                lane.handle.progress = True
                return item

    def _begin(self, lane: _ActorLane) -> None:
        """Has an actor go on behind the last element that was taken from it."""
        handle = lane.handle
        request = FetchRequest(self._number, handle.number, len(self._lanes), self._seed, lane.position, 0)
        handle.actor.begin_fetching.remote(request)
        lane.keys = deque((number, key, self._call(lane, number, key)) for number, key, _ in lane.keys)

    def _call(self, lane: _ActorLane, number: int, key: object) -> Any:
        return lane.handle.actor.fetch.remote(number, key)

    def _send_keys(self) -> None:
        """Sends keys to the actors, in turn, as long as the next one has fewer than `ahead` without an answer."""
        while self._askable and len(self._askable[0].keys) < self._ahead:
            key = next(self._keys, _NO_KEY)
            if key is _NO_KEY:
                return
            lane = self._askable[0]
            lane.keys.append((self._next_number, key, self._call(lane, self._next_number, key)))
            self._next_number += 1
            self._askable.rotate(-1)

    def _end_lane(self, lane: _ActorLane) -> None:
        """An actor has no further elements, so it gets no further keys, and no turns."""
        lane.keys.clear()
        self._turns.remove(lane)
        self._askable.remove(lane)
        self._send_keys()
