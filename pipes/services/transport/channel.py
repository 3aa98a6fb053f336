"""`Channel`: messages between two processes, how to wait for one, and errors that travel.

A message has a head, a small tuple of plain values, and a body, bytes that are sent as they are. On the wire it is the
lengths of both, the pickle of the head, and the body. Both processes are ours, so unpickling is safe.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, TypeAlias, TypeVar

from ...core import system
from ...core.process import local_world_size
from ...errors import shown_traceback, text_of
from .packing import PackedElement, Packer, unpack

_LENGTHS = struct.Struct("<IQ")
_READ_BYTES = 2**16
_MAX_BUFFERS = 1024  # in one call: the least that POSIX systems allow

Head: TypeAlias = tuple[object, ...]


class Message(NamedTuple):
    """A message that has arrived. Its body is writable."""

    head: Head
    body: memoryview


class GoneError(Exception):
    """The process at the other end has ended, or has closed its end."""


_GONE = (ConnectionError, TimeoutError)
"""What the system raises then; the latter, if another machine does not answer."""


class Channel:
    """One end of a connection; `spin_wait` says how `receive` waits."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._read = bytearray()  # bytes of messages that are not parsed yet
        self._head_bytes = 0
        self._message: memoryview | None = None  # head and body of the message that is being received
        self._filled = 0
        self._unsent = bytearray()
        self.spin_wait = SpinWait()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message, and wait until the system has taken it.

        Raises:
            GoneError: the other end is closed.
        """
        views = [memoryview(part).cast("B") for part in (*_prefix(head, body), *body)]
        try:
            while views:
                sent = self._socket.sendmsg(views[:_MAX_BUFFERS])
                while views and sent >= len(views[0]):
                    sent -= len(views.pop(0))
                if sent:
                    views[0] = views[0][sent:]
        except _GONE:
            raise GoneError from None

    def post(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message without waiting; `flush` sends what the system does not take now."""
        self.queue(head, body)
        self.flush()

    def queue(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Keep a message for the next `post` or `flush`, which sends both at once."""
        self._unsent += b"".join((*_prefix(head, body), *body))

    def flush(self) -> bool:
        """Send what `post` has left over; return whether everything is sent.

        If the receiver is gone, it is discarded, and `receive` reports that. So it is if this side has closed the
        channel: a pool may end before a run of it that was dropped.
        """
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except _GONE:
                sent = len(self._unsent)
            except OSError:
                if self._socket.fileno() != -1:
                    raise
                sent = len(self._unsent)
            del self._unsent[:sent]
        return True

    def receive(self, *, wait: bool = True) -> Message | None:
        """The next message, or None if it has not arrived and `wait` is False.

        Raises:
            GoneError: the other end is closed.
        """
        if wait:
            return self.spin_wait.wait(lambda: self.receive(wait=False), lambda: self._receive(0))
        return self._receive(socket.MSG_DONTWAIT)

    def _receive(self, flags: int) -> Message | None:
        try:
            while True:
                if self._message is None:
                    if not self._start_message():
                        data = self._socket.recv(_READ_BYTES, flags)
                        if not data:
                            raise GoneError
                        self._read += data
                elif self._filled < len(self._message):
                    count = self._socket.recv_into(self._message[self._filled :], 0, flags)
                    if not count:
                        raise GoneError
                    self._filled += count
                else:
                    message, self._message = self._message, None
                    return Message(pickle.loads(message[: self._head_bytes]), message[self._head_bytes :])
        except BlockingIOError:
            return None
        except _GONE:
            raise GoneError from None

    def _start_message(self) -> bool:
        """Allocate the next message and fill it with what is read; False if its lengths have not arrived."""
        if len(self._read) < _LENGTHS.size:
            return False
        self._head_bytes, body_bytes = _LENGTHS.unpack_from(self._read)
        message = bytearray(self._head_bytes + body_bytes)
        self._filled = min(len(message), len(self._read) - _LENGTHS.size)
        stop = _LENGTHS.size + self._filled
        message[: self._filled] = memoryview(self._read)[_LENGTHS.size : stop]
        del self._read[:stop]
        self._message = memoryview(message)
        return True


def _prefix(head: Head, body: Sequence[bytes | memoryview]) -> tuple[bytes, bytes]:
    """What goes before the body: the lengths, and the pickle of the head."""
    pickled = pickle.dumps(head, 5)
    return _LENGTHS.pack(len(pickled), sum(memoryview(part).nbytes for part in body)), pickled


# Waiting for a message.


T = TypeVar("T")

MAX_SPIN_SECONDS = 0.0002
"""The time for which checking again and again pays: to be woken by the system costs a third of it."""


def enough_cores(processes: int) -> bool:
    """Whether the processes of each rank of this machine have a core each; else one that spins delays another."""
    ranks = local_world_size()
    cores = system.cpu_cores()
    return processes * ranks <= cores


class SpinWait:
    """Waits for answers. While they come fast, and if it is allowed, it checks again and again before it sleeps."""

    def __init__(self) -> None:
        self.allowed = True
        self._fast = False

    def wait(self, check: Callable[[], T | None], sleep: Callable[[], T]) -> T:
        """What `check` returns once that is not None, or what `sleep` returns, which waits for the answer."""
        begin = perf_counter()
        while self._fast and self.allowed and perf_counter() - begin < MAX_SPIN_SECONDS:
            if (answer := check()) is not None:
                return answer
            os.sched_yield()
        answer = sleep()
        self._fast = perf_counter() - begin < MAX_SPIN_SECONDS * (2 if self._fast else 1)
        return answer


# Errors that travel to another process.


class RemoteError(Exception):
    """The traceback of an error in the process that raised it. It is the last cause of the error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class _ErrorParts:
    """The parts of an exception, to make it again without its `__init__`."""

    cls: type[BaseException]
    args: tuple[object, ...]
    state: dict[str, object]

    def to_exception(self) -> BaseException:
        error = self.cls.__new__(self.cls, *self.args)
        error.args = self.args
        error.__dict__.update(self.state)
        return error


@dataclass(frozen=True)
class RemoteFailure:
    """An error and its causes, and the traceback of all of them."""

    errors: list[BaseException | _ErrorParts]
    traceback: str

    def to_exception(self) -> BaseException:
        """The error with its causes; the last cause is a `RemoteError`."""
        cause: BaseException = RemoteError(self.traceback)
        for link in reversed(self.errors):
            error = link.to_exception() if isinstance(link, _ErrorParts) else link
            error.__cause__, cause = cause, error
        return cause


def pack_error(error: BaseException, process: str, packer: Packer) -> PackedElement:
    """The parts of `error` that can be packed; `process` says where it was raised."""
    text = "".join(traceback.format_exception(type(error), error, shown_traceback(error))).rstrip()
    return packer.pack(RemoteFailure([_packable(link, packer) for link in _causes(error)], f"in {process}:\n{text}"))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _packable(error: BaseException, packer: Packer) -> BaseException | _ErrorParts:
    """The first that can be packed: `error`, its parts, its class with its text, a base class with its text."""
    if _survives(error, type(error), packer):
        return error
    text = (text_of(error),)
    parts = [_ErrorParts(type(error), error.args, vars(error))]
    parts += [_ErrorParts(cls, text, {}) for cls in type(error).__mro__ if issubclass(cls, BaseException)]
    return next(candidate for candidate in parts if _survives(candidate, _ErrorParts, packer))


def _survives(value: object, cls: type, packer: Packer) -> bool:
    """Whether `value` can be packed, and unpacked as a `cls`."""
    try:
        stream, *memories = packer.pack(value).body()
        copy = unpack(stream, map(bytearray, memories))
        return type(copy) is cls and (
            not isinstance(copy, _ErrorParts) or isinstance(copy.to_exception(), BaseException)
        )
    except Exception:  # a user's class may do anything here
        return False
