"""`Pool`: the worker processes of one loader, and what it holds of each, also after another has replaced it."""

from __future__ import annotations

import logging
import mmap
import os
import select
import signal
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from threading import Lock
from time import perf_counter
from typing import NamedTuple, cast

from ...core import system
from ...core.ending import Ending
from ...core.graph import Node, walk
from ...core.operator import Trait
from ...core.times import RunTimes
from ...errors import LoaderError, WorkerError, WorkerWarning, warn
from ...plan.plan import worker_graph
from ..fetching import FetchRequest
from ..transport import importable
from ..transport.channel import Channel, GoneError, Message, SpinWait, enough_cores
from ..transport.graph_file import write_graph_file
from ..transport.memory import Window
from ..transport.module_state import CapturedGlobals
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
from .start import DispatcherLink, ForkServer, Launcher, Started

log = logging.getLogger("feedpipe")


class PoolSettings(NamedTuple):
    """How many workers a pool has, and how they run. `MultiProcess` explains the values.

    `memory` is for all arenas together, or for finished elements if workers share no memory.
    """

    workers: int
    memory: int
    prefetch: int | None = None
    init: Callable[[int], object] | None = None
    timeout: float | None = None
    launcher: Callable[[], Launcher] = partial(ForkServer, 1, 4)


@dataclass
class _Resources:
    """What a pool has to end."""

    launcher: Launcher
    graph_file: int = -1
    workers: list[WorkerHandle] = field(default_factory=list)
    dispatcher: DispatcherHandle | None = None
    owner: int = field(default_factory=os.getpid)

    @property
    def dispatcher_link(self) -> DispatcherLink | None:
        return None if self.dispatcher is None else self.dispatcher.link

    def disown(self) -> None:
        """Close the connections in a forked copy of the owner; else they would stay open as long as the copy lives."""
        for worker in self.workers:
            worker.disown()
        if self.dispatcher is not None:
            self.dispatcher.close()
        self.launcher.disown()

    def end(self) -> None:
        """End all processes. An interrupt may have ended an earlier call, so no descriptor is closed twice."""
        if os.getpid() != self.owner:
            return  # a forked copy of the owner owns none of this
        for worker in self.workers:
            worker.close()
        if self.dispatcher is not None:
            self.dispatcher.close()
        graph_file, self.graph_file = self.graph_file, -1
        if graph_file >= 0:
            os.close(graph_file)
        self.launcher.close()


class Pool:
    """Starts worker processes, receives their messages, replaces those that die, and ends them.

    Attributes:
        lock: held by a thread that uses the workers, if several threads of this process do.
    """

    def __init__(self, settings: PoolSettings) -> None:
        importable.check_start()
        self.settings = settings
        self.lock = Lock()
        self._arena_bytes = settings.memory // settings.workers
        self._spin_wait = SpinWait()
        self._request: DispatchRequest | None = None
        self._globals: CapturedGlobals | None = None
        self._warned_of_full_memory = False
        self._orphans: set[int] = set()  # numbers of workers whose dispatcher has died
        launcher = settings.launcher()
        self._resources = _Resources(launcher)
        if not launcher.shares_memory:
            self._arena_bytes = 0
        self._end = Ending(self, self._resources.end)
        _pools.add(self)

    def ready(self, root: Node) -> list[WorkerHandle]:
        """The workers, which have the graph of `root`. The first call starts them.

        Raises:
            ArgumentTypeError: something in the graph cannot be sent to them.
        """
        self._check_owner()
        if not self._resources.workers:
            importable.check_start()
            self._create(root)
        elif self._globals is not None:
            self._globals.warn_of_changes()
        self._start_missing()
        return self._resources.workers

    def begin(self, request: DispatchRequest) -> None:
        """Announce the next run to the dispatcher, before the workers get their requests."""
        self._request = request
        if self._resources.dispatcher is not None:
            self._resources.dispatcher.deaths = 0
            self._resources.dispatcher.running().begin(request)

    def collect(self) -> list[WorkerHandle]:
        """Put what has arrived into the inboxes without waiting; return the workers that have died."""
        return _collect(self._resources.workers)

    def listen(self, handles: Sequence[WorkerHandle], making: Callable[[WorkerHandle], str]) -> list[WorkerHandle]:
        """Wait until one of `handles` has a message in its inbox, any worker says where a span begins, or one has died.

        `making` says what a worker makes next, for an error. Returns the workers that have died.

        Raises:
            WorkerError: a worker cannot run, or none has sent anything for too long.
        """
        self._check_owner()

        def check() -> list[WorkerHandle] | None:
            dead = _collect(handles)
            starts = any(handle.starts for handle in self._resources.workers)
            return dead if dead or starts or any(handle.inbox for handle in handles) else None

        if (dead := check()) is not None:  # mostly the next message has arrived already
            return dead
        for handle in self._resources.workers:
            handle.notify()
        return self._spin_wait.wait(check, lambda: self._sleep(handles, making))

    def replace(self, handle: WorkerHandle, doing: str) -> None:
        """Replace a process that has died while it made `doing`.

        Raises:
            WorkerError: too many processes have died at this element.
        """
        death = handle.end()
        if handle.number in self._orphans:
            self._orphans.discard(handle.number)
        else:
            if self._resources.dispatcher is not None:
                self._resources.dispatcher.progress |= handle.progress
            note = handle.crash_note if handle.deaths > 1 else ""  # else the note is of an earlier run
            handle.deaths = 1 if handle.progress else handle.deaths + 1
            message = f"worker {handle.number} ({handle.place}) {death}, while it made {doing}"
            stacks = handle.written_stacks()
            if stacks:
                log.debug("worker %d (%s) %s: %s", handle.number, handle.place, death, stacks)
            report_death(handle.deaths, f"{message}, in {note}" if note else message, _users_frames(stacks))
        self._start([handle])

    def distrust(self) -> None:
        """Start new processes for the next run: an interrupt may have cut a message in two."""
        for handle in self._resources.workers:
            handle.broken = True

    def element(self, handle: WorkerHandle, item: ReceivedItem) -> object:
        """The element that an item brings. The first that finds the shared memory full is logged."""
        if not self._warned_of_full_memory and self._arena_bytes and item.without_memory:
            self._warned_of_full_memory = True
            log.warning(
                "the elements that are kept fill what `memory` allows to share, so others take a slower way; "
                "allow more, or keep copies of the parts that are needed"
            )
        return handle.element(item)

    def close(self) -> None:
        """End all processes, and wait until they have ended."""
        self._end()

    def disown(self) -> None:
        self._resources.disown()

    def _sleep(self, handles: Sequence[WorkerHandle], making: Callable[[WorkerHandle], str]) -> list[WorkerHandle]:
        """As `listen`, but the system wakes this process."""
        poll = select.poll()
        for handle in self._resources.workers:
            poll.register(handle, select.POLLIN if handle.notify() else select.POLLIN | select.POLLOUT)
        dispatcher = self._resources.dispatcher
        if dispatcher is not None:
            poll.register(dispatcher.running(), select.POLLRDHUP)  # its end
        timeout = self.settings.timeout
        ready = {fd for fd, _ in poll.poll(None if timeout is None else min(timeout * 1000, 2**31 - 1))}
        if timeout is not None and not ready:
            raise _timeout_error(handles, making, timeout)
        if dispatcher is not None and dispatcher.running().fileno() in ready:
            self._replace_dispatcher(dispatcher)
            return self._resources.workers
        return _collect(handle for handle in self._resources.workers if handle.fileno() in ready)

    def _create(self, root: Node) -> None:
        """Write the graph, and create a handle for each process."""
        resources, settings = self._resources, self.settings
        self._check_memory()
        root = worker_graph(root)
        self._globals = CapturedGlobals(root)
        resources.graph_file = write_graph_file((self._globals.state, root, settings.init), root)
        if any(node.op.trait is Trait.ONE_PROCESS for node in walk(root)):
            resources.dispatcher = DispatcherHandle(resources.launcher)
        is_local = resources.launcher.shares_memory
        spins = is_local and enough_cores(1 + settings.workers + (resources.dispatcher is not None))
        self._spin_wait.allowed = spins
        most_bytes = float("inf") if is_local else settings.memory // settings.workers
        resources.workers += [
            WorkerHandle(
                resources.launcher, WorkerSettings(number, settings.prefetch, self._arena_bytes, [], spins, most_bytes)
            )
            for number in range(settings.workers)
        ]

    def _start_missing(self) -> None:
        """Start the processes that do not run: all of them at first, later those that an error has ended."""
        resources = self._resources
        if resources.dispatcher is not None and resources.dispatcher.link is None:
            for handle in resources.workers:
                if handle.running:
                    handle.end()
            resources.dispatcher.start(resources.graph_file)
        for handle in resources.workers:
            if handle.running and (handle.broken or handle.number in self._orphans):
                handle.end()
        self._start([handle for handle in resources.workers if not handle.running])
        self._orphans.clear()

    def _start(self, handles: Sequence[WorkerHandle]) -> None:
        resources = self._resources
        fds = {handle.number: handle.fds for handle in handles}
        new = resources.launcher.workers(fds, resources.graph_file, resources.dispatcher_link)
        for handle, started in zip(handles, new, strict=True):
            handle.take(started, dispatched=resources.dispatcher is not None)

    def _replace_dispatcher(self, dispatcher: DispatcherHandle) -> None:
        """Replace the dispatcher, and with it all workers, which were connected to it."""
        resources = self._resources
        progress = dispatcher.progress or any(handle.progress for handle in resources.workers)
        death = dispatcher.end()
        dispatcher.deaths = 1 if progress else dispatcher.deaths + 1
        report_death(
            dispatcher.deaths, f"the {resources.launcher.noun} that runs the operators before `dispatch` {death}"
        )
        dispatcher.start(resources.graph_file)
        if self._request is not None:
            dispatcher.running().begin(self._request)
        self._orphans.update(handle.number for handle in resources.workers)

    def _check_owner(self) -> None:
        if os.getpid() != self._resources.owner:
            raise LoaderError("the workers of a loader belong to the process that made it; make a loader in this one")

    def _check_memory(self) -> None:
        if not self._arena_bytes:
            return
        size = self._arena_bytes * self.settings.workers
        try:
            fd = system.create_shared_memory(size)
            try:
                mmap.mmap(fd, size).close()  # the address space may be limited
            finally:
                os.close(fd)
        except OSError as error:
            self._arena_bytes = 0
            log.warning("elements take a slower way from the workers, because there is no shared memory: %s", error)


def _disown() -> None:
    for pool in _pools:
        pool.disown()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown)


def _collect(handles: Iterable[WorkerHandle]) -> list[WorkerHandle]:
    """Put what has arrived into the inboxes; return the workers that have died."""
    dead: list[WorkerHandle] = []
    for handle in handles:
        try:
            handle.collect()
        except GoneError:
            dead.append(handle)
    return dead


MAX_DEATHS = 3
"""The workers in a row that may die at one element."""


def report_death(deaths: int, message: str, frames: str = "") -> None:
    """Warn of a death, or raise an error, with the last frames, if too many workers have died in this place."""
    if deaths >= MAX_DEATHS:
        frames = frames and f"\nits last call was:\n{frames}"
        raise WorkerError(f"{message}; it has died there {deaths} times, so it is not started again{frames}")
    warn(f"{message}; it is started again from there, nothing is lost", WorkerWarning)


def _users_frames(stacks: str) -> str:
    """The frames of the thread that a fatal signal has met, innermost first, up to the first of feedpipe."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    frames = stacks.partition("Current thread")[2].splitlines()[1:]
    return "\n".join(takewhile(lambda frame: frame.startswith("  File") and package not in frame, frames))


def _timeout_error(
    handles: Iterable[WorkerHandle], making: Callable[[WorkerHandle], str], seconds: float
) -> WorkerError:
    stacks = [
        f"worker {handle.number} ({handle.place}) makes {making(handle)}; it is here:\n"
        f"{handle.stacks() or 'still at its start'}"
        for handle in handles
    ]
    return WorkerError(f"no element has come for {seconds:g} seconds, which is the `timeout`; " + "\n".join(stacks))


# The owner's side of each process.


MIN_NOTICE_SECONDS = 0.001
"""Elements that are taken within this time are reported to their worker in one message."""


class WorkerHandle:
    """A worker: a process, or the one that has replaced it after its death.

    Attributes:
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
        self._stacks, *self.fds = system.nonblocking_pipe()
        self._window: Window | None = None
        if settings.arena_bytes:
            self.fds.append(system.create_shared_memory(settings.arena_bytes))
            self._window = Window(self.fds[-1], settings.arena_bytes)
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
        return self.channel.fileno()

    @property
    def channel(self) -> Channel:
        assert self._channel is not None, "a worker is started before it is used"
        return self._channel

    def take(self, started: Started, *, dispatched: bool) -> None:
        """Take over a new process. The inbox stays, and the process learns which regions are in use."""
        end, self.pid, self.place = started
        self._channel = Channel(end)
        self._unused.clear()
        leased: list[ArenaPlace] = []
        if self._window:
            self._window.take_freed()
            leased = self._window.leased()
        leased += [place for item in self.inbox for place in item.places]
        self.channel.post(self._settings._replace(leased=leased, dispatched=dispatched))
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
        self.channel.post(request)

    def cancel(self) -> None:
        """End the run, for this side and for the worker."""
        self._run = -1
        self.starts.clear()
        while self.inbox:
            self._unused += [offset for offset, _ in self.inbox.popleft().places]
        if self.running:
            self.channel.post(("stop",))

    def received(self) -> Iterator[Item]:
        """The items in the inbox, without elements."""
        return (item.item() for item in self.inbox if item.kind != "failed")

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
        """Tell the worker what the consumer has taken and which regions are free again; return whether all is sent."""
        freed = self._unused + (self._window.take_freed() if self._window else [])
        if self._taken or freed:
            self.channel.post(("took", self._taken, freed))
            self._taken = 0
            self._unused.clear()
            self._noticed = perf_counter()
        return self.channel.flush()

    def collect(self) -> None:
        """Put what has arrived into the inbox.

        Raises:
            GoneError: the process has died.
            WorkerError: the process cannot run.
        """
        while (message := self.channel.receive(wait=False)) is not None:
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
                _, run, span, sizes = cast("tuple[str, int, int, Sizes]", message.head)
                if run == self._run:
                    self.starts.append(("start", run, span, (bytes(message.body), sizes)))
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
        self.channel.close()
        self._channel = None
        return self._launcher.end(self.pid)

    def stacks(self) -> str:
        """The Python stacks of the process."""
        if not self._launcher.shares_memory:
            return "`ray stack` on that node shows it"
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
        while self.fds:
            os.close(self.fds.pop())
        self._window = None
        self.disown()

    def disown(self) -> None:
        """Close the connection without a word to the worker. A forked copy of the owner does this, too."""
        self.inbox.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None


@dataclass
class DispatcherHandle:
    """The dispatcher: a process, or the one that has replaced it after its death.

    It has progress if a worker has sent anything of the run and has been replaced, since the present process began.
    """

    launcher: Launcher
    link: DispatcherLink | None = None
    progress: bool = False
    deaths: int = 0  # processes in a row that have died before their workers sent anything

    def running(self) -> DispatcherLink:
        assert self.link is not None, "a dispatcher is started before it is used"
        return self.link

    def start(self, graph_file: int) -> None:
        self.link = self.launcher.dispatcher(graph_file)
        self.progress = False

    def end(self) -> Death | str:
        process = self.running().process
        self.close()
        return self.launcher.end(process)

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None
