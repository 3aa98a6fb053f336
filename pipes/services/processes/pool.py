"""`Pool`: the worker processes of one loader."""

from __future__ import annotations

import logging
import mmap
import os
import select
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from ...core.graph import Node, walk
from ...core.operator import Boundary
from ...errors import LoaderError, WorkerError
from ...plan.worker_graph import worker_graph
from ..deaths import report_death
from ..transport.captured_globals import CapturedGlobals
from ..transport.channel import GoneError
from ..transport.graph_file import write_graph_file
from ..transport.shared_memory import create_shared_memory
from ..transport.spin_wait import SpinWait, enough_cores
from .dispatcher_handle import DispatcherHandle
from .protocol import DispatchRequest
from .start_methods import STARTERS, Starter
from .worker_handle import WorkerHandle

log = logging.getLogger("feedpipe")


class PoolSettings(NamedTuple):
    """How many workers a pool has, and how they run. `MultiProcess` explains the values.

    Attributes:
        memory: bytes of all arenas together.
    """

    workers: int
    memory: int
    start_method: str = "forkserver"
    prefetch: int | None = None
    init: Callable[[int], object] | None = None
    timeout: float | None = None
    threads: int = 1
    io_threads: int = 4


@dataclass
class _Resources:
    """What a pool has to end."""

    starter: Starter
    graph_file: int = -1
    workers: list[WorkerHandle] = field(default_factory=list)
    dispatcher: DispatcherHandle | None = None
    owner: int = field(default_factory=os.getpid)

    def disown(self) -> None:
        """Closes the connections in a forked copy of the owner; else they would stay open as long as the copy lives."""
        for worker in self.workers:
            worker.disown()
        if self.dispatcher is not None:
            self.dispatcher.close()
        self.starter.disown()

    def end(self) -> None:
        if os.getpid() != self.owner:
            return  # a forked copy of the owner owns none of this
        for worker in self.workers:
            worker.close()
        if self.dispatcher is not None:
            self.dispatcher.close()
        if self.graph_file >= 0:
            os.close(self.graph_file)
        self.starter.close()


class Pool:
    """Starts worker processes, receives their messages, replaces those that die, and ends them.

    Attributes:
        lock: held by a thread that uses the workers, if several threads of this process do.
    """

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.lock = Lock()
        self._arena_bytes = settings.memory // settings.workers
        self._spin_wait = SpinWait()
        self._request: DispatchRequest | None = None
        self._globals: CapturedGlobals | None = None
        self._warned_of_full_memory = False
        self._orphans: set[int] = set()  # numbers of workers whose dispatcher has died
        self._resources = _Resources(STARTERS[settings.start_method](settings.threads, settings.io_threads))
        self._end = weakref.finalize(self, self._resources.end)
        _pools.add(self)

    def ready(self, root: Node) -> list[WorkerHandle]:
        """The workers, which have the graph of `root`. The first call starts them.

        Raises:
            ArgumentTypeError: something in the graph cannot be sent to them.
        """
        self._check_owner()
        if not self._resources.workers:
            self._create(root)
        elif self._globals is not None:
            self._globals.warn_of_changes()
        self._start_missing()
        return self._resources.workers

    def begin(self, request: DispatchRequest) -> None:
        """Announces the next run to the dispatcher, before the workers get their requests."""
        self._request = request
        if self._resources.dispatcher is not None:
            self._resources.dispatcher.deaths = 0
            self._resources.dispatcher.begin(request)

    def listen(self, handles: Sequence[WorkerHandle]) -> list[WorkerHandle]:
        """Waits until one of `handles` has a message in its inbox, or until a worker has died.

        Returns:
            The workers that have died.

        Raises:
            WorkerError: a worker cannot run, or none has sent anything for too long.
        """
        self._check_owner()

        def check() -> list[WorkerHandle] | None:
            dead = _collect(handles)
            return dead if dead or any(handle.inbox for handle in handles) else None

        if (dead := check()) is not None:  # mostly the next message has arrived already
            return dead
        for handle in self._resources.workers:
            handle.notify()
        return self._spin_wait.wait(check, lambda: self._sleep(handles))

    def replace(self, handle: WorkerHandle, doing: str) -> None:
        """Starts a new process in place of one that has died while it made `doing`.

        Raises:
            WorkerError: too many processes have died at this element.
        """
        death = handle.end(self._resources.starter)
        if handle.number in self._orphans:
            self._orphans.discard(handle.number)
        else:
            if self._resources.dispatcher is not None:
                self._resources.dispatcher.progress |= handle.progress
            note = handle.crash_note() if handle.deaths > 1 else ""  # else the note is of an earlier run
            handle.deaths = 1 if handle.progress else handle.deaths + 1
            message = f"worker {handle.number} (process {handle.pid}) {death}, while it made {doing}"
            report_death(handle.deaths, f"{message}, in {note}" if note else message)
        self._start(handle)

    def distrust(self) -> None:
        """Starts new processes for the next run: an interrupt may have cut a message in two."""
        for handle in self._resources.workers:
            handle.broken = True

    def warn_of_full_memory(self) -> None:
        """Logs, once, that an element has arrived without shared memory because that is full."""
        if self._arena_bytes and not self._warned_of_full_memory:
            self._warned_of_full_memory = True
            log.warning(
                "the elements that are kept fill what `memory` allows to share, so others take a slower way; "
                "allow more, or keep copies of the parts that are needed"
            )

    def close(self) -> None:
        """Ends all processes, and waits until they have ended."""
        self._end()

    def disown(self) -> None:
        self._resources.disown()

    def _sleep(self, handles: Sequence[WorkerHandle]) -> list[WorkerHandle]:
        """As `listen`, but the system wakes this process."""
        poll = select.poll()
        for handle in self._resources.workers:
            poll.register(handle, select.POLLIN if handle.notify() else select.POLLIN | select.POLLOUT)
        dispatcher = self._resources.dispatcher
        if dispatcher is not None:
            poll.register(dispatcher, 0)  # its end
        timeout = self.settings.timeout
        ready = {fd for fd, _ in poll.poll(None if timeout is None else min(timeout * 1000, 2**31 - 1))}
        if timeout is not None and not ready:
            raise _timeout_error(handles, timeout)
        if dispatcher is not None and dispatcher.fileno() in ready:
            self._replace_dispatcher(dispatcher)
            return self._resources.workers
        return _collect(handle for handle in self._resources.workers if handle.fileno() in ready)

    def _create(self, root: Node) -> None:
        """Writes the graph, and creates a handle for each process."""
        resources, settings = self._resources, self.settings
        self._check_memory()
        root = worker_graph(root)
        self._globals = CapturedGlobals(root)
        resources.graph_file = write_graph_file((root, settings.init), root)
        if any(node.op.boundary is Boundary.ONE_PROCESS for node in walk(root)):
            resources.dispatcher = DispatcherHandle()
        spins = enough_cores(1 + settings.workers + (resources.dispatcher is not None))
        self._spin_wait.allowed = spins
        stacks = settings.timeout is not None
        resources.workers += [
            WorkerHandle(number, self._arena_bytes, settings.prefetch, stacks=stacks, spins=spins)
            for number in range(settings.workers)
        ]

    def _start_missing(self) -> None:
        """Starts the processes that do not run: all of them at first, later those that an error has ended."""
        resources = self._resources
        if resources.dispatcher is not None and not resources.dispatcher.running:
            for handle in resources.workers:
                if handle.running:
                    handle.end(resources.starter)
            resources.dispatcher.start(resources.starter, resources.graph_file)
        for handle in resources.workers:
            if handle.running and (handle.broken or handle.number in self._orphans):
                handle.end(resources.starter)
            if not handle.running:
                self._start(handle)
        self._orphans.clear()

    def _start(self, handle: WorkerHandle) -> None:
        resources = self._resources
        handle.start(resources.starter, resources.graph_file, resources.dispatcher)

    def _replace_dispatcher(self, dispatcher: DispatcherHandle) -> None:
        """Starts a new dispatcher. All workers were connected to the old one, so they have to be replaced too."""
        resources = self._resources
        progress = dispatcher.progress or any(handle.progress for handle in resources.workers)
        death = dispatcher.end(resources.starter)
        dispatcher.deaths = 1 if progress else dispatcher.deaths + 1
        report_death(dispatcher.deaths, f"the process that runs the operators before `dispatch` {death}")
        dispatcher.start(resources.starter, resources.graph_file)
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
            fd = create_shared_memory(size)
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
    """Puts what has arrived into the inboxes; returns the workers that have died."""
    dead: list[WorkerHandle] = []
    for handle in handles:
        try:
            handle.collect()
        except GoneError:
            dead.append(handle)
    return dead


def _timeout_error(handles: Iterable[WorkerHandle], seconds: float) -> WorkerError:
    stacks = [
        f"worker {handle.number} (process {handle.pid}) is here:\n{handle.stack() or 'still at its start'}"
        for handle in handles
    ]
    return WorkerError(f"no element has come for {seconds:g} seconds, which is the `timeout`; " + "\n".join(stacks))
