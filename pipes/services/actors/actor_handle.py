"""`ActorHandle`: one actor, as its owner sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ..base import ShardEnd, Step
from .burst import BurstItem, burst_items
from .protocol import ActorPlace, ActorRequest

MAX_CALLS = 3
"""How many bursts of an actor there are at most: one that the consumer takes from, and others that are on their way."""


class ActorHandle:
    """The place of an actor. When it dies, another one takes its place.

    Args:
        number: of the worker.
        prefetch: how many finished elements may wait for the consumer.
        memory: how many bytes they may hold.

    Attributes:
        inbox: items of the run that have arrived and are still to be consumed.
        actor: Ray's handle; None if it has to be started.
        place: where it runs.
        progress: whether the present actor has sent anything of the run.
        deaths: actors that have died here in a row without progress.
    """

    def __init__(self, number: int, prefetch: int | None, memory: int) -> None:
        self.number = number
        self.inbox: deque[BurstItem] = deque()
        self.actor: Any = None
        self.place: ActorPlace | None = None
        self.progress = False
        self.deaths = 0
        self._max_calls = MAX_CALLS if prefetch is None else min(MAX_CALLS, prefetch)
        self._memory = memory
        self._largest = 1
        self._run = -1
        self._bursts: deque[Any] = deque()  # references, in the order of the calls

    def __str__(self) -> str:
        return f"worker {self.number}" + ("" if self.place is None else f" ({self.place})")

    def begin(self, run: int) -> None:
        """Begins a run, and forgets what is left of an earlier one."""
        self.cancel()
        self.deaths = 0
        self._run = run

    def request(self, request: ActorRequest) -> None:
        """Asks the actor for a part of the run."""
        self._bursts.clear()
        self.actor.begin.remote(request)
        self._call()

    def receive(self, timeout: float | None) -> None:
        """Waits for the next burst, and puts its items into the inbox.

        Raises:
            GetTimeoutError: none has come in time.
            Exception: one of `LOST`: the actor has died.
        """
        self._call()
        burst = ray.get(self._bursts[0], timeout=timeout)
        self._bursts.popleft()
        self._largest = max(self._largest, burst[1].nbytes)
        self.inbox.extend(burst_items(burst))
        self.progress |= bool(self.inbox)

    def received(self) -> Iterator[Step | ShardEnd]:
        """The items in the inbox, without elements."""
        for item in self.inbox:
            if item.kind == "step":
                yield Step(None, item.shard, item.cursor)
            elif item.kind == "ended":
                yield ShardEnd(item.shard, item.cursor)

    def cancel(self) -> None:
        """Ends the run, for this side and for the actor."""
        self.inbox.clear()
        if self.actor is not None and self._run >= 0:
            # Calls that have been made still run: to cancel one that is on its way would stop the actor for 30 seconds.
            self.actor.stop.remote(self._run)
        self._bursts.clear()
        self._run = -1

    def forget(self) -> None:
        """Forgets an actor that has ended; the inbox stays."""
        self._bursts.clear()
        self.actor = self.place = None
        self.progress = False

    def _call(self) -> None:
        """Asks for as many bursts as may wait."""
        room = max(1, self._memory // self._largest)
        while len(self._bursts) < min(self._max_calls, room):
            self._bursts.append(self.actor.next_burst.remote(self._run))
