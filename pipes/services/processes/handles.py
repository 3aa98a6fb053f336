"""`WorkerHandle` and `DispatcherHandle`: what a pool holds of each process, also after another has replaced it."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from collections.abc import Iterator
from time import perf_counter
from typing import cast

from ...core import system
from ...core.cursor import Json
from ...core.times import RunTimes
from ...errors import WorkerError
from ..base import ShardEnd, SpanEnd, Step
from ..fetching import FetchRequest
from ..transport.channel import Channel, Head, Message
from ..transport.memory import Window
from ..transport.packing import unpack
from ..turns import Item
from .fork_server import Death
from .logs import handle_records
from .protocol import (
    ArenaPlace,
    BurstMessage,
    DispatchRequest,
    ReceivedItem,
    RunRequest,
    Sizes,
    StartHead,
    WorkerSettings,
    received_items,
    unpack_error,
)
from .start import DispatcherLink, Launcher

MIN_NOTICE_SECONDS = 0.001
"""Elements that are taken within this time are reported to their worker in one message."""


class WorkerHandle:
    """A worker: a process, or the one that has replaced it after its death.

    Attributes:
        inbox: items of the run that have arrived and are still to be consumed.
        starts: where spans begin, for their workers.
        progress: whether the present process has sent anything of the run.
        broken: whether the present process cannot run, or may have sent or received only half a message.
        deaths: processes in a row that have died without progress.
        crash_note: what the last process was running, if it was careful.
    """

    def __init__(self, launcher: Launcher, settings: WorkerSettings) -> None:
        self.number = settings.number
        self.inbox: deque[ReceivedItem] = deque()
        self.starts: deque[StartHead] = deque()
        self.progress = False
        self.broken = False
        self.deaths = 0
        self.pid = 0
        self.place = ""
        self.crash_note = ""
        self._launcher = launcher
        self._settings = settings
        self._stacks, *self._fds = system.nonblocking_pipe()
        self._window: Window | None = None
        if settings.arena_bytes:
            self._fds.append(system.create_shared_memory(settings.arena_bytes))
            self._window = Window(self._fds[-1], settings.arena_bytes)
        self._channel: Channel | None = None
        self._run = -1
        self._taken = 0  # elements that the consumer has taken since the last notice
        self._noticed = 0.0
        self._unused: list[int] = []  # regions of messages that were dropped
        self._times: RunTimes | None = None  # of the run

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

    def start(self, graph_file: int, dispatcher: DispatcherLink | None) -> None:
        """Start a process here. The inbox stays, and the new process learns which regions are in use.

        Args:
            graph_file: the descriptor of the graph.
            dispatcher: gets a connection to the process.
        """
        end, self.pid, self.place = self._launcher.worker(self.number, graph_file, self._fds, dispatcher)
        self._channel = Channel(end)
        self._unused.clear()
        leased: list[ArenaPlace] = []
        if self._window:
            self._window.take_freed()
            leased = self._window.leased()
        leased += [place for item in self.inbox for place in item.places]
        self._open.post(self._settings._replace(leased=leased, dispatched=dispatcher is not None))
        self.progress = False
        self.broken = False

    def begin(self, run: int, times: RunTimes | None = None) -> None:
        """Begin a run, and forget the items and the deaths of an earlier one."""
        self.cancel()
        self.deaths = 0
        self._run = run
        self._times = times

    def request(self, request: RunRequest | FetchRequest) -> None:
        """Ask the worker for a part of the run."""
        self._taken = 0
        self._open.post(request)

    def post(self, head: Head) -> None:
        """Send a message without waiting."""
        self._open.post(head)

    def queue(self, head: Head) -> None:
        """Keep a message for the next one that is sent, or for `notify`."""
        self._open.queue(head)

    def cancel(self) -> None:
        """End the run, for this side and for the worker."""
        self._run = -1
        self.starts.clear()
        while self.inbox:
            self._unused += [offset for offset, _ in self.inbox.popleft().places]
        if self.running:
            self._open.post(("stop",))

    def received(self) -> Iterator[Item]:
        """The items in the inbox, without elements."""
        for item in self.inbox:
            if item.kind == "step":
                yield Step(None, item.shard, item.cursor)
            elif item.kind == "ended":
                yield ShardEnd(item.shard, item.cursor)
            elif item.kind == "span":
                yield SpanEnd(item.shard)

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
        """Tell the worker what the consumer has taken and which regions are free again.

        Returns:
            Whether everything is sent.
        """
        freed = self._unused + (self._window.take_freed() if self._window else [])
        if self._taken or freed:
            self._open.post(("took", self._taken, freed))
            self._taken = 0
            self._unused.clear()
            self._noticed = perf_counter()
        return self._open.flush()

    def collect(self) -> None:
        """Put what has arrived into the inbox.

        Raises:
            GoneError: the process has died.
            WorkerError: the process cannot run.
        """
        while (message := self._open.receive(wait=False)) is not None:
            kind = message.head[0]
            if kind == "broken":
                self.broken = True
                raise self._start_error(message)
            if kind == "ready":
                continue
            if kind == "note":
                self.crash_note = str(message.head[1])
                continue
            if kind == "log":
                handle_records(message.head[1])
                continue
            if kind == "start":
                _, run, span, numbers, sizes = cast("tuple[str, int, int, Json, Sizes]", message.head)
                if run == self._run:
                    self.starts.append(("start", run, span, numbers, (bytes(message.body), sizes)))
                continue
            self._receive(message)

    def _start_error(self, message: Message) -> WorkerError:
        cause, doing = unpack_error(message), message.head[1]
        there = not self._launcher.shares_memory
        where = f" in {self.place}" if there else ""
        text = f"worker {self.number} cannot begin{where}, {doing} failed with {type(cause).__name__}: {cause}"
        if there and isinstance(cause, ModuleNotFoundError):
            text += '; install it there, or send your code: `runtime_env={"working_dir": "."}`'
        error = WorkerError(text)
        error.__cause__ = cause
        return error

    def _receive(self, message: Message) -> None:
        """Put the items of a burst into the inbox."""
        _, run, place, heads, tables = cast("BurstMessage", message.head)
        if run != self._run:
            offsets = [offset for _, _, _, places, _ in heads for offset, _ in places]
            self._unused += offsets if place is None else [place[0], *offsets]
            return
        if self._times is not None:
            self._times.add(tables)
        body = message.body
        if place is not None:
            assert self._window is not None, "only an arena has places"
            body = memoryview(self._window.lease(*place)).cast("B")
        self.progress = True
        self.inbox.extend(received_items(heads, body))

    def end(self) -> Death | str:
        """End the process; return how it ended if it had ended by itself."""
        self._open.close()
        self._channel = None
        return self._launcher.end(self.pid)

    def stacks(self) -> str:
        """The Python stacks of the process."""
        if (stacks := self._launcher.stacks(self.pid)) is not None:
            return stacks
        os.kill(self.pid, signal.SIGUSR1)
        return self.written_stacks(200)

    def written_stacks(self, milliseconds: int = 0) -> str:
        """What the process has written, on request or because of a fatal signal; waits so long for more."""
        text = b""
        poll = select.poll()
        poll.register(self._stacks, select.POLLIN)
        while poll.poll(milliseconds):
            text += os.read(self._stacks, 2**16)
        return text.decode(errors="replace").rstrip()

    def close(self) -> None:
        """Close all descriptors, which tells the process to end."""
        stacks, self._stacks = self._stacks, -1
        if stacks >= 0:
            os.close(stacks)
        while self._fds:
            os.close(self._fds.pop())
        self._window = None
        self.disown()

    def disown(self) -> None:
        """Close the connection without a word to the worker. A forked copy of the owner does this, too."""
        self.inbox.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class DispatcherHandle:
    """The dispatcher: a process, or the one that has replaced it after its death.

    Attributes:
        progress: whether a worker has sent anything of the run and has been replaced, since the present process began.
        deaths: processes in a row that have died before their workers sent anything.
    """

    def __init__(self, launcher: Launcher) -> None:
        self.progress = False
        self.deaths = 0
        self._launcher = launcher
        self.link: DispatcherLink | None = None

    def fileno(self) -> int:
        return self._open.fileno()

    @property
    def running(self) -> bool:
        return self.link is not None

    @property
    def _open(self) -> DispatcherLink:
        assert self.link is not None, "a dispatcher is started before it is used"
        return self.link

    def start(self, graph_file: int) -> None:
        self.link = self._launcher.dispatcher(graph_file)
        self.progress = False

    def begin(self, request: DispatchRequest) -> None:
        """Announce the next run."""
        self._open.begin(request)

    def end(self) -> Death | str:
        process = self._open.process
        self.close()
        return self._launcher.end(process)

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None
