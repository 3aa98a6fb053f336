"""`Pool`: the worker processes of one loader."""

from __future__ import annotations

import logging
import mmap
import os
import select
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import NamedTuple

from ...core import system
from ...core.ending import Ending
from ...core.graph import Node, walk
from ...core.operator import Trait
from ...errors import LoaderError, WorkerError
from ...plan.plan import worker_graph
from ..transport import nesting
from ..transport.channel import GoneError, SpinWait, enough_cores
from ..transport.graph_file import write_graph_file
from ..transport.module_state import CapturedGlobals
from .deaths import report_death
from .handles import DispatcherHandle, WorkerHandle
from .protocol import DispatchRequest, ReceivedItem, WorkerSettings
from .start import DispatcherLink, ForkServer, Launcher

log = logging.getLogger("feedpipe")


class PoolSettings(NamedTuple):
    """How many workers a pool has, and how they run. `MultiProcess` explains the values.

    Attributes:
        memory: bytes of all arenas together; of workers without shared memory, of finished elements.
        launcher: starts the workers; by default by the fork server, with the threads that `MultiProcess` gives them.
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
        nesting.check_start()
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
            nesting.check_start()
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
            self._resources.dispatcher.begin(request)

    def collect(self) -> list[WorkerHandle]:
        """Put what has arrived into the inboxes without waiting; return the workers that have died."""
        return _collect(self._resources.workers)

    def listen(self, handles: Sequence[WorkerHandle], making: Callable[[WorkerHandle], str]) -> list[WorkerHandle]:
        """Wait until one of `handles` has a message in its inbox, any worker says where a span begins, or one has died.

        Args:
            handles: the workers.
            making: says what one makes next, for an error.

        Returns:
            The workers that have died.

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
        self._start(handle)

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
            poll.register(dispatcher, select.POLLRDHUP)  # its end
        timeout = self.settings.timeout
        ready = {fd for fd, _ in poll.poll(None if timeout is None else min(timeout * 1000, 2**31 - 1))}
        if timeout is not None and not ready:
            raise _timeout_error(handles, making, timeout)
        if dispatcher is not None and dispatcher.fileno() in ready:
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
        resources, launcher = self._resources, self._resources.launcher
        if resources.dispatcher is not None and not resources.dispatcher.running:
            for handle in resources.workers:
                if handle.running:
                    handle.end()
            resources.dispatcher.start(resources.graph_file)
        for handle in resources.workers:
            if handle.running and (handle.broken or handle.number in self._orphans):
                handle.end()
        missing = [handle for handle in resources.workers if not handle.running]
        launcher.prepare([handle.number for handle in missing], resources.graph_file, resources.dispatcher_link)
        for handle in missing:
            self._start(handle)
        self._orphans.clear()

    def _start(self, handle: WorkerHandle) -> None:
        handle.start(self._resources.graph_file, self._resources.dispatcher_link)

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
            dispatcher.begin(self._request)
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
