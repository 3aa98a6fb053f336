"""`WorkerHandle`: one worker process, as its owner sees it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections import deque
from collections.abc import Iterator
from time import perf_counter
from typing import cast

from ...errors import WorkerError
from ..base import ShardEnd, Step
from ..fetching import FetchRequest
from ..transport.arena import Window
from ..transport.channel import Channel, Head, Message
from ..transport.packing import unpack
from ..transport.shared_memory import create_shared_memory
from .child import Death
from .connection import open_connection
from .dispatcher_handle import DispatcherHandle
from .protocol import ArenaPlace, BurstMessage, ReceivedItem, RunRequest, WorkerSettings, received_items, unpack_error
from .start_methods import Starter

MIN_NOTICE_SECONDS = 0.001
"""Elements that are taken within this time are reported to their worker in one message."""


class WorkerHandle:
    """The place of a worker process. When a process dies, another one takes its place.

    Attributes:
        inbox: items of the run that have arrived and are still to be consumed.
        progress: whether the present process has sent anything of the run.
        broken: whether the present process cannot run, or may have sent or received only half a message.
        deaths: processes that have died here in a row without progress.
    """

    def __init__(self, number: int, arena_bytes: int, prefetch: int | None, *, stacks: bool, spins: bool) -> None:
        self.number = number
        self.inbox: deque[ReceivedItem] = deque()
        self.progress = False
        self.broken = False
        self.deaths = 0
        self.pid = 0
        self._settings = WorkerSettings(number, prefetch, arena_bytes, [], stacks, spins)
        self._fds = [create_shared_memory(arena_bytes)] if arena_bytes else []
        self._window = Window(self._fds[0], arena_bytes) if arena_bytes else None
        self._stacks = -1
        if stacks:
            self._stacks, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._fds.append(theirs)
        self._channel: Channel | None = None
        self._run = -1
        self._taken = 0  # elements that the consumer has taken since the last notice
        self._noticed = 0.0
        self._unused: list[int] = []  # regions of messages that were dropped

    @property
    def running(self) -> bool:
        return self._channel is not None

    @property
    def waiting(self) -> int:
        """Elements that have arrived and are still to be consumed."""
        return sum(item.kind == "step" for item in self.inbox)

    def fileno(self) -> int:
        return self._open.fileno()

    @property
    def _open(self) -> Channel:
        assert self._channel is not None, "a worker is started before it is used"
        return self._channel

    def start(self, starter: Starter, graph_file: int, dispatcher: DispatcherHandle | None) -> None:
        """Starts a process here. The inbox stays, and the new process learns which regions are in use.

        Args:
            starter: starts it.
            graph_file: the descriptor of the graph.
            dispatcher: gets a connection to the process.
        """
        with open_connection() as (ours, theirs), contextlib.ExitStack() as ends:
            fds = [theirs.fileno(), graph_file, *self._fds]
            if dispatcher is not None:
                fds.append(ends.enter_context(dispatcher.connect()).fileno())
            self.pid = starter.start("worker", fds, ours.fileno())
        self._channel = Channel(ours)
        self._unused.clear()
        leased: list[ArenaPlace] = []
        if self._window:
            self._window.take_freed()
            leased = self._window.leased()
        leased += [place for item in self.inbox for place in item.places]
        self._open.post(self._settings._replace(leased=leased, dispatched=dispatcher is not None))
        self.progress = False
        self.broken = False

    def begin(self, run: int) -> None:
        """Begins a run, and forgets the items and the deaths of an earlier one."""
        self.cancel()
        self.deaths = 0
        self._run = run

    def request(self, request: RunRequest | FetchRequest) -> None:
        """Asks the worker for a part of the run."""
        self._taken = 0
        self._open.post(request)

    def post(self, head: Head) -> None:
        """Sends a message without waiting."""
        self._open.post(head)

    def queue(self, head: Head) -> None:
        """Keeps a message for the next one that is sent, or for `notify`."""
        self._open.queue(head)

    def cancel(self) -> None:
        """Ends the run, for this side and for the worker."""
        self._run = -1
        while self.inbox:
            self._unused += [offset for offset, _ in self.inbox.popleft().places]
        if self.running:
            self._open.post(("stop",))

    def received(self) -> Iterator[Step | ShardEnd]:
        """The items in the inbox, without elements."""
        for item in self.inbox:
            if item.kind == "step":
                yield Step(None, item.shard, item.cursor)
            elif item.kind == "ended":
                yield ShardEnd(item.shard, item.cursor)

    def element(self, item: ReceivedItem) -> object:
        """The element that an item brings."""
        self._taken += 1
        # A fast consumer soon returns, and waking a worker costs more than a small element.
        if not self.inbox or perf_counter() - self._noticed > MIN_NOTICE_SECONDS:
            self.notify()
        if not item.places or self._window is None:
            return item.value()
        return unpack(item.parts[0], [self._window.lease(*place) for place in item.places])

    def notify(self) -> bool:
        """Tells the worker what the consumer has taken and which regions are free again.

        Returns:
            Whether all of it is sent.
        """
        freed = self._unused + (self._window.take_freed() if self._window else [])
        if self._taken or freed:
            self._open.post(("took", self._taken, freed))
            self._taken = 0
            self._unused.clear()
            self._noticed = perf_counter()
        return self._open.flush()

    def collect(self) -> None:
        """Puts what has arrived into the inbox.

        Raises:
            GoneError: the process has died.
            WorkerError: the process cannot run.
        """
        while (message := self._open.receive(wait=False)) is not None:
            kind = message.head[0]
            if kind == "broken":
                self.broken = True
                raise _start_error(self.number, message)
            if kind == "ready":
                continue
            self._receive(message)

    def _receive(self, message: Message) -> None:
        """Puts the items of a burst into the inbox."""
        _, run, place, heads = cast("BurstMessage", message.head)
        if run != self._run:
            offsets = [offset for _, _, _, places, _ in heads for offset, _ in places]
            self._unused += offsets if place is None else [place[0], *offsets]
            return
        body = message.body
        if place is not None:
            assert self._window is not None, "only an arena has places"
            body = memoryview(self._window.lease(*place)).cast("B")
        self.progress = True
        self.inbox.extend(received_items(heads, body))

    def end(self, starter: Starter) -> Death:
        """Ends the process; returns how it ended if it had ended by itself."""
        self._open.close()
        self._channel = None
        return starter.end(self.pid)

    def crash_note(self) -> str:
        """What the last process was running, if it was careful."""
        return self._window.note().decode(errors="replace") if self._window else ""

    def stack(self) -> str:
        """The Python stacks of the process."""
        os.kill(self.pid, signal.SIGUSR1)
        text = b""
        poll = select.poll()
        poll.register(self._stacks, select.POLLIN)
        while poll.poll(200):
            text += os.read(self._stacks, 2**16)
        return text.decode(errors="replace").rstrip()

    def close(self) -> None:
        """Closes all descriptors, which tells the process to end."""
        for fd in (*self._fds, self._stacks):
            if fd >= 0:
                os.close(fd)
        self._fds.clear()
        self._stacks = -1
        self._window = None
        self.disown()

    def disown(self) -> None:
        """Closes the connection without a word to the worker. A forked copy of the owner does this, too."""
        self.inbox.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _start_error(number: int, message: Message) -> WorkerError:
    cause = unpack_error(message)
    doing = message.head[1]
    error = WorkerError(f"worker {number} cannot begin, {doing} failed with {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error
