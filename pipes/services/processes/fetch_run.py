"""`FetchRun`: one run in which worker processes make an element for each key of their owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...core.cursor import Json
from ...core.graph import Node
from ..fetching import FetchRequest
from ..keyed_run import KeyedRun, Lane
from .pool import Pool
from .worker_handle import WorkerHandle


class FetchRun(KeyedRun[WorkerHandle]):
    """A run of worker processes. `KeyedRun` explains the other arguments.

    Args:
        pool: the workers.
        root: the graph, a `FetchSource`.
        number: of the run, unique for the pool.
        seed: for the fetchers.
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
        super().__init__(pool.ready(root), keys, turns, positions, first=first, ahead=ahead, ordered=ordered)
        self._pool = pool
        self._number = number
        self._seed = seed
        for lane in self._turns:
            lane.handle.begin(number)
            self._begin(lane)
        self._send_keys()
        for lane in self._turns:
            lane.handle.notify()

    def __next__(self) -> object:
        while any(lane.keys for lane in self._turns):
            lane = self._lane_of_next()
            lane.keys.popleft()
            item = lane.handle.inbox.popleft()
            if item.kind == "ended":
                self._end_lane(lane)
                continue
            self._turns.rotate(-1)
            self._send_keys()
            if item.kind == "failed":
                raise item.error()
            lane.position = item.cursor
            if item.without_memory:
                self._pool.warn_of_full_memory()
            return lane.handle.element(item)
        raise StopIteration

    def close(self) -> None:
        """Ends the run; the workers go on living."""
        for lane in self._lanes:
            lane.handle.cancel()

    def _lane_of_next(self) -> Lane[WorkerHandle]:
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

    def _send(self, lane: Lane[WorkerHandle], number: int, key: object) -> None:
        lane.handle.queue(("fetch", self._number, number, key))  # the next notice takes it along, or the next wait

    def _listen(self, lanes: list[Lane[WorkerHandle]]) -> None:
        for handle in self._pool.listen([lane.handle for lane in lanes]):
            lane = self._lanes[handle.number]
            answers = len(handle.inbox)
            self._pool.replace(handle, str(lane.keys[min(answers, len(lane.keys) - 1)]))
            self._begin(lane)
            for sent in list(lane.keys)[answers:]:
                self._send(lane, sent.number, sent.key)

    def _begin(self, lane: Lane[WorkerHandle]) -> None:
        """Has a worker go on after what has arrived from it."""
        handle = lane.handle
        position = lane.position
        for item in handle.inbox:
            if item.kind == "step":
                position = item.cursor
        workers = len(self._lanes)
        handle.request(FetchRequest(self._number, handle.number, workers, self._seed, position, handle.waiting))
