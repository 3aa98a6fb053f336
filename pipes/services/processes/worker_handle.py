"""One worker process, as its owner sees it."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
from collections import deque
from collections.abc import Generator, Sequence
from time import perf_counter
from typing import cast

from ...errors import WorkerError
from ..transport.arena import Window
from ..transport.channel import Channel, Message
from ..transport.packing import unpack
from ..transport.shared_memory import shared_memory
from .protocol import Begin, Order, Place, Program, content, failure
from .start_methods import Death, Starter

HURRY = 0.0005
"""Seconds within which several elements that are taken are told to their worker in one message."""


class Worker:
    """A place for a worker process; several may fill it, one after the other.

    Attributes:
        inbox: what has arrived of the run and was not asked for yet.
        progress: whether anything of the run has come from the present process.
        broken: whether the present process could not begin, or it is not certain what it and its owner said last.
        deaths: processes that have died here, one after the other, without progress.
    """

    def __init__(self, number: int, arena: int, prefetch: int | None, *, stacks: bool) -> None:
        self.number = number
        self.inbox: deque[Message] = deque()
        self.progress = False
        self.broken = False
        self.deaths = 0
        self.pid = 0
        self._begin = Begin(number, prefetch, arena, [], stacks)
        self._fds = [shared_memory(arena)] if arena else []
        self._window = Window(self._fds[0], arena) if arena else None
        self._stacks = -1
        if stacks:
            self._stacks, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._fds.append(theirs)
        self._channel: Channel | None = None
        self._run = -1
        self._taken = 0  # elements that the consumer has taken and the worker does not know of
        self._told = 0.0
        self._loose: list[int] = []  # regions that came and were never handed over

    @property
    def running(self) -> bool:
        return self._channel is not None

    @property
    def waiting(self) -> int:
        """Elements that nobody has asked for yet."""
        return sum(message.head[0] == "step" for message in self.inbox)

    def fileno(self) -> int:
        return self._open.fileno()

    @property
    def _open(self) -> Channel:
        assert self._channel is not None, "a worker is started before it is spoken to"
        return self._channel

    def start(self, starter: Starter, parcel: int, dispatcher: Dispatcher | None) -> None:
        """Starts a process here. What earlier ones have sent stays; what they were told of regions is told again.

        Args:
            starter: starts it.
            parcel: the graph.
            dispatcher: gets a connection to it.
        """
        with _pair() as (ours, theirs), contextlib.ExitStack() as ends:
            fds = [theirs.fileno(), parcel, *self._fds]
            if dispatcher is not None:
                fds.append(ends.enter_context(dispatcher.connection()).fileno())
            self.pid = starter.start("worker", fds, ours.fileno())
        self._channel = Channel(ours)
        self._loose.clear()
        held: list[Place] = []
        if self._window:
            self._window.freed()
            held = self._window.held()
        held += [place for message in self.inbox for place in _places(message)]
        self._open.post(self._begin._replace(held=held, dispatched=dispatcher is not None))
        self.progress = False
        self.broken = False

    def begin(self, run: int) -> None:
        """Begins a run; of an earlier one, nothing more is wanted, and its deaths are forgotten."""
        self.drop()
        self.deaths = 0
        self._run = run

    def order(self, order: Order) -> None:
        """Says what of the run is to do."""
        self._taken = 0
        self._open.post(order)

    def drop(self) -> None:
        """Wants no more of the run."""
        self._run = -1
        while self.inbox:
            self._free(self.inbox.popleft())
        if self.running:
            self._open.post(("stop",))

    def element(self, message: Message) -> object:
        """The element that a message brings."""
        places = _places(message)
        self._taken += 1
        # A consumer in a hurry is soon here again, and to wake a worker costs more than a small element.
        if not self.inbox or perf_counter() - self._told > HURRY:
            self.tell()
        if not places or self._window is None:
            return content(message)
        return unpack(message.body, [self._window.lease(*place) for place in places])

    def tell(self) -> bool:
        """Tells the worker what the consumer has taken, and which regions are free again; says whether all is sent."""
        freed = self._loose + (self._window.freed() if self._window else [])
        if self._taken or freed:
            self._open.post(("took", self._taken, freed))
            self._taken = 0
            self._loose.clear()
            self._told = perf_counter()
        return self._open.flush()

    def hear(self) -> None:
        """Takes what has arrived.

        Raises:
            GoneError: the process has died.
            WorkerError: it could not begin.
        """
        while (message := self._open.receive(wait=False)) is not None:
            kind = message.head[0]
            if kind == "broken":
                self.broken = True
                raise _broken(self.number, message)
            if kind == "ready":
                continue
            if message.head[1] == self._run:
                self.progress = True
                self.inbox.append(message)
            else:
                self._free(message)

    def end(self, starter: Starter) -> Death:
        """Ends the process; says how it ended if it had done so by itself."""
        self._open.close()
        self._channel = None
        return starter.end(self.pid)

    def note(self) -> str:
        """What the last process was doing, if it was careful."""
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
        """Lets go of everything; the process learns that it is to end."""
        for fd in (*self._fds, self._stacks):
            if fd >= 0:
                os.close(fd)
        self._fds.clear()
        self._stacks = -1
        self._window = None
        self.disown()

    def disown(self) -> None:
        """Says no more to the worker, as in a copy of its owner that a fork has made."""
        self.inbox.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _free(self, message: Message) -> None:
        self._loose += [offset for offset, _ in _places(message)]


class Dispatcher:
    """The process that runs what stands before `dispatch`.

    Attributes:
        progress: whether anything of the run has come from a worker that is no more, since the present process began.
        deaths: processes that have died here, one after the other, before anything came from their workers.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.progress = False
        self.deaths = 0
        self._control: socket.socket | None = None

    def fileno(self) -> int:
        return self._open.fileno()

    @property
    def running(self) -> bool:
        return self._control is not None

    @property
    def _open(self) -> socket.socket:
        assert self._control is not None, "a dispatcher is started before it is spoken to"
        return self._control

    def start(self, starter: Starter, parcel: int) -> None:
        with _pair(socket.SOCK_SEQPACKET) as (ours, theirs):
            self.pid = starter.start("dispatcher", [theirs.fileno(), parcel], ours.fileno())
        self._control = ours
        self.progress = False

    def connection(self) -> socket.socket:
        """One end of a connection to it."""
        with _pair() as (ours, theirs):
            self._say(None, theirs.fileno())
        return ours

    def begin(self, program: Program) -> None:
        """Tells the plan of the next run."""
        self._say(program)

    def _say(self, program: Program | None, *fds: int) -> None:
        with contextlib.suppress(ConnectionError):  # one that has died is found by a poll
            socket.send_fds(self._open, [pickle.dumps(program)], fds)

    def end(self, starter: Starter) -> Death:
        self.close()
        return starter.end(self.pid)

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None


@contextlib.contextmanager
def _pair(kind: socket.SocketKind = socket.SOCK_STREAM) -> Generator[tuple[socket.socket, socket.socket]]:
    """A connection: an end to keep, unless something fails, and one to hand on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with theirs:
        try:
            yield ours, theirs
        except BaseException:
            ours.close()
            raise


def _places(message: Message) -> Sequence[Place]:
    return cast("Sequence[Place]", message.head[-2]) if message.head[0] == "step" else ()


def _broken(number: int, message: Message) -> WorkerError:
    cause = failure(message)
    doing = message.head[1]
    error = WorkerError(f"worker {number} cannot begin, {doing} failed with {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error
