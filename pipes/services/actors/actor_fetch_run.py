"""`ActorFetchRun`: one run in which actors make an element for each key of their owner."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, cast

import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...core.cursor import Json
from ...core.graph import Node
from ..fetching import FetchRequest
from ..keyed_run import KeyedRun, Lane
from ..transport.remote_error import RemoteFailure
from .actor_handle import ActorHandle
from .actor_pool import ActorPool
from .burst import BurstItem, burst_items
from .protocol import LOST, unpack_parts


class ActorFetchRun(KeyedRun[ActorHandle]):
    """A run of actors. `KeyedRun` and `FetchRun` explain the arguments."""

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
        super().__init__(pool.ready(root), keys, turns, positions, first=first, ahead=ahead)
        self._pool = pool
        self._number = number
        self._seed = seed
        for lane in self._turns:
            lane.handle.deaths = 0
            self._begin(lane)
        self._send_keys()

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

    def _receive(self, lane: Lane[ActorHandle]) -> BurstItem:
        """The answer to the first key of a lane. It waits, and replaces actors that die."""
        self._pool.check_owner()
        timeout = self._pool.settings.timeout
        while True:
            sent = lane.keys[0]
            try:
                (item,) = burst_items(ray.get(sent.call, timeout=timeout))
            except ray.exceptions.GetTimeoutError as error:
                raise self._pool.timeout_error(lane.handle, str(sent)) from error
            except LOST as error:
                self._pool.replace(lane.handle, str(sent), error)
                self._begin(lane)
            else:
                lane.handle.progress = True
                return item

    def _begin(self, lane: Lane[ActorHandle]) -> None:
        """Has an actor go on behind the last element that was taken from it."""
        handle = lane.handle
        request = FetchRequest(self._number, handle.number, len(self._lanes), self._seed, lane.position, 0)
        handle.actor.begin_fetching.remote(request)
        lane.keys = deque(sent._replace(call=self._send(lane, sent.number, sent.key)) for sent in lane.keys)

    def _send(self, lane: Lane[ActorHandle], number: int, key: object) -> Any:
        return lane.handle.actor.fetch.remote(number, key)
