"""`Channel`: messages between two processes, over a socket.

A message has a head, a small tuple of plain values, and a body, bytes that are sent as they are. On the wire it is the
lengths of both, the pickle of the head, and the body. Both processes are ours, so unpickling is safe.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from .spin_wait import SpinWait

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


class Channel:
    """One end of a connection.

    Attributes:
        spin_wait: how `receive` waits.
    """

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
        """Sends a message, and waits until the system has taken it.

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
        except ConnectionError:
            raise GoneError from None

    def post(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Sends a message without waiting; `flush` sends what the system does not take now."""
        self.queue(head, body)
        self.flush()

    def queue(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Keeps a message for the next `post` or `flush`, which sends both at once."""
        self._unsent += b"".join((*_prefix(head, body), *body))

    def flush(self) -> bool:
        """Sends what `post` has left over.

        Returns:
            Whether all of it is sent. If the receiver is gone, it is discarded, and `receive` reports that.
        """
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except ConnectionError:
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
        except ConnectionError:
            raise GoneError from None

    def _start_message(self) -> bool:
        """Allocates the next message and fills it with what is read; False if its lengths have not arrived."""
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
