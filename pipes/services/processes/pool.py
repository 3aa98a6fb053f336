"""The worker processes of one loader."""

from __future__ import annotations

import logging
import mmap
import os
import select
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.graph import Node, walk
from ...core.operator import Boundary
from ...errors import LoaderError, WorkerError, WorkerWarning, warn
from ..transport.channel import GoneError
from ..transport.graph_file import write_parcel
from ..transport.shared_memory import shared_memory
from ..transport.spin_wait import Waiting
from .protocol import Program
from .start_methods import STARTERS, Starter
from .worker_handle import Dispatcher, Worker

if TYPE_CHECKING:
    from ..multiprocess import MultiProcess

log = logging.getLogger("feedpipe")

TRIES = 3
"""How often one element may end its worker."""


@dataclass
class _Owned:
    """What a pool has to end."""

    starter: Starter
    parcel: int = -1
    workers: list[Worker] = field(default_factory=list)
    dispatcher: Dispatcher | None = None
    owner: int = field(default_factory=os.getpid)

    def disown(self) -> None:
        """In a copy of the owner, made by a fork: lets go of its connections, which would outlive it here."""
        for worker in self.workers:
            worker.disown()
        if self.dispatcher is not None:
            self.dispatcher.close()
        self.starter.disown()

    def end(self) -> None:
        if os.getpid() != self.owner:
            return  # a copy of the owner, made by a fork: nothing here is its own
        for worker in self.workers:
            worker.close()
        if self.dispatcher is not None:
            self.dispatcher.close()
        if self.parcel >= 0:
            os.close(self.parcel)
        self.starter.close()


class Pool:
    """Starts worker processes, listens to them, replaces those that die, and ends them.

    Args:
        service: how many, and how they are to be.
        memory: bytes of all arenas together.
    """

    def __init__(self, service: MultiProcess, memory: int) -> None:
        self._service = service
        self._arena = memory // service.workers
        self._waiting = Waiting()
        self._program: Program | None = None
        self._told_crowded = False
        self._orphans: set[int] = set()  # numbers of workers whose dispatcher has died
        self._owned = _Owned(STARTERS[service.start_method](service.threads, service.io_threads))
        self._end = weakref.finalize(self, self._owned.end)
        _pools.add(self)

    def ready(self, root: Node) -> list[Worker]:
        """The workers, which have the graph below `root`; the first call starts them.

        Raises:
            ArgumentTypeError: something in the graph cannot be sent to them.
        """
        self._check_owner()
        if not self._owned.workers:
            self._make(root)
        self._start_missing()
        return self._owned.workers

    def begin(self, program: Program) -> None:
        """Says what is run next; then the workers get their orders."""
        self._program = program
        if self._owned.dispatcher is not None:
            self._owned.dispatcher.deaths = 0
            self._owned.dispatcher.begin(program)

    def listen(self, waited_for: Sequence[Worker]) -> list[Worker]:
        """Waits until some worker has something to say, and takes it; those that have died instead are returned.

        Raises:
            WorkerError: a worker could not begin, or all have been silent for too long.
        """
        self._check_owner()

        def heard() -> list[Worker] | None:
            dead = _heard(waited_for)
            return dead if dead or any(worker.inbox for worker in waited_for) else None

        if (dead := heard()) is not None:  # mostly it is there already
            return dead
        for worker in self._owned.workers:
            worker.tell()
        return self._waiting.until(heard, lambda: self._slept(waited_for))

    def _slept(self, waited_for: Sequence[Worker]) -> list[Worker]:
        """As `listen`, for the system to wake this process."""
        poll = select.poll()
        for worker in self._owned.workers:
            poll.register(worker, select.POLLIN if worker.tell() else select.POLLIN | select.POLLOUT)
        dispatcher = self._owned.dispatcher
        if dispatcher is not None:
            poll.register(dispatcher, 0)  # its end
        timeout = self._service.timeout
        answered = {fd for fd, _ in poll.poll(None if timeout is None else min(timeout * 1000, 2**31 - 1))}
        if timeout is not None and not answered:
            raise _silent(waited_for, timeout)
        if dispatcher is not None and dispatcher.fileno() in answered:
            self._replace_dispatcher(dispatcher)
            return self._owned.workers
        return _heard(worker for worker in self._owned.workers if worker.fileno() in answered)

    def replace(self, worker: Worker, doing: str) -> None:
        """Starts a new process in place of one that has died while it made `doing`.

        Raises:
            WorkerError: the same element has ended it too often.
        """
        death = worker.end(self._owned.starter)
        if worker.number in self._orphans:
            self._orphans.discard(worker.number)
        else:
            if self._owned.dispatcher is not None:
                self._owned.dispatcher.progress |= worker.progress
            note = worker.note() if worker.deaths > 1 else ""  # else it is of an earlier run
            worker.deaths = 1 if worker.progress else worker.deaths + 1
            said = f"worker {worker.number} (process {worker.pid}) {death}, while it made {doing}"
            _bear(worker.deaths, f"{said}, in {note}" if note else said)
        self._start(worker)

    def distrust(self) -> None:
        """After an interrupt, which may have cut a message in two: the next run begins with new processes."""
        for worker in self._owned.workers:
            worker.broken = True

    def close(self) -> None:
        """Ends all processes, and waits until they have ended."""
        self._end()

    def _make(self, root: Node) -> None:
        """Writes the graph, and makes the places for processes."""
        owned, service = self._owned, self._service
        self._check_memory()
        owned.parcel = write_parcel((root, service.init), root)
        if any(node.op.boundary is Boundary.ONE_PROCESS for node in walk(root)):
            owned.dispatcher = Dispatcher()
        owned.workers += [
            Worker(number, self._arena, service.prefetch, stacks=service.timeout is not None)
            for number in range(service.workers)
        ]

    def _start_missing(self) -> None:
        """Starts all processes, or those that an error or an interrupt has kept from being started again."""
        owned = self._owned
        if owned.dispatcher is not None and not owned.dispatcher.running:
            for worker in owned.workers:
                if worker.running:
                    worker.end(owned.starter)
            owned.dispatcher.start(owned.starter, owned.parcel)
        for worker in owned.workers:
            if worker.running and (worker.broken or worker.number in self._orphans):
                worker.end(owned.starter)
            if not worker.running:
                self._start(worker)
        self._orphans.clear()

    def _start(self, worker: Worker) -> None:
        owned = self._owned
        worker.start(owned.starter, owned.parcel, owned.dispatcher)

    def _replace_dispatcher(self, dispatcher: Dispatcher) -> None:
        """Starts a new one; the workers, which hang on the old one, are to be replaced too."""
        owned = self._owned
        progress = dispatcher.progress or any(worker.progress for worker in owned.workers)
        death = dispatcher.end(owned.starter)
        dispatcher.deaths = 1 if progress else dispatcher.deaths + 1
        _bear(dispatcher.deaths, f"the process that runs what stands before `dispatch` {death}")
        dispatcher.start(owned.starter, owned.parcel)
        if self._program is not None:
            dispatcher.begin(self._program)
        self._orphans.update(worker.number for worker in owned.workers)

    def tell_crowded(self) -> None:
        """Says, once, that an element has come without the shared memory, because that is full."""
        if self._arena and not self._told_crowded:
            self._told_crowded = True
            log.warning(
                "the elements that are kept fill what `memory` allows to share, so others come by a slower way; "
                "allow more, or keep copies of the parts that are needed"
            )

    def disown(self) -> None:
        self._owned.disown()

    def _check_owner(self) -> None:
        if os.getpid() != self._owned.owner:
            raise LoaderError("the workers of a loader belong to the process that made it; make a loader in this one")

    def _check_memory(self) -> None:
        if not self._arena:
            return
        size = self._arena * self._service.workers
        try:
            fd = shared_memory(size)
            try:
                mmap.mmap(fd, size).close()  # there may be a limit on what a process maps
            finally:
                os.close(fd)
        except OSError as error:
            self._arena = 0
            log.warning("elements come from the workers by a slower way, for there is no shared memory: %s", error)


def _disown() -> None:
    for pool in _pools:
        pool.disown()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown)


def _heard(workers: Iterable[Worker]) -> list[Worker]:
    """Takes what has come from workers; those that have died."""
    dead: list[Worker] = []
    for worker in workers:
        try:
            worker.hear()
        except GoneError:
            dead.append(worker)
    return dead


def _bear(deaths: int, said: str) -> None:
    """Warns of a death, which is mended; too many in one place are an error."""
    if deaths >= TRIES:
        raise WorkerError(f"{said}; it has died there {deaths} times, so it is not started again")
    warn(f"{said}; it is started again from there, nothing is lost", WorkerWarning)


def _silent(workers: Iterable[Worker], seconds: float) -> WorkerError:
    said = [
        f"worker {one.number} (process {one.pid}) is here:\n{one.stack() or 'still at its start'}" for one in workers
    ]
    return WorkerError(f"no element has come for {seconds:g} seconds, which is the `timeout`; " + "\n".join(said))
