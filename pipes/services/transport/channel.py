"""`Channel`: messages between two processes, over a socket.

A message is a head, a small tuple of plain values, and a body, bytes that are sent as they lie. On the wire: the
lengths of both, the head's pickle, the body. Both ends are ours, so to unpickle is safe here.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from .spin_wait import Waiting

_LENGTHS = struct.Struct("<IQ")
_CHUNK = 2**16  # bytes read at once
_MOST = 1024  # buffers in one call, the least that POSIX systems allow

Head = tuple[object, ...]


class Message(NamedTuple):
    """What arrived; the body can be written to."""

    head: Head
    body: memoryview


class GoneError(Exception):
    """The process at the other end is gone, whichever way it went."""


class Channel:
    """One end. `GoneError` says that the other is closed."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._read = bytearray()  # bytes of messages that have not begun to be taken apart
        self._head = 0
        self._message: memoryview | None = None  # one that is being received
        self._filled = 0
        self._unsent = bytearray()
        self._waiting = Waiting()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Sends a message, and waits until it is on its way."""
        views = [memoryview(part).cast("B") for part in (*_begin(head, body), *body)]
        try:
            while views:
                sent = self._socket.sendmsg(views[:_MOST])
                while views and sent >= len(views[0]):
                    sent -= len(views.pop(0))
                if sent:
                    views[0] = views[0][sent:]
        except ConnectionError:
            raise GoneError from None

    def post(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Sends a message as far as there is room on the way; `flush` sends the rest."""
        self._unsent += b"".join((*_begin(head, body), *body))
        self.flush()

    def flush(self) -> bool:
        """Sends what `post` could not, and says whether all is sent. A dead receiver is found by `receive`."""
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
        """The next message, or None where it is not here yet and `wait` is False."""
        if wait:
            return self._waiting.until(lambda: self.receive(wait=False), lambda: self._received(0))
        return self._received(socket.MSG_DONTWAIT)

    def _received(self, flags: int) -> Message | None:
        try:
            while True:
                if self._message is None:
                    if not self._begun():
                        data = self._socket.recv(_CHUNK, flags)
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
                    return Message(pickle.loads(message[: self._head]), message[self._head :])
        except BlockingIOError:
            return None
        except ConnectionError:
            raise GoneError from None

    def _begun(self) -> bool:
        """Whether enough is read to begin the next message."""
        if len(self._read) < _LENGTHS.size:
            return False
        self._head, body = _LENGTHS.unpack_from(self._read)
        whole = bytearray(self._head + body)
        self._filled = min(len(whole), len(self._read) - _LENGTHS.size)
        stop = _LENGTHS.size + self._filled
        whole[: self._filled] = memoryview(self._read)[_LENGTHS.size : stop]
        del self._read[:stop]
        self._message = memoryview(whole)
        return True


def _begin(head: Head, body: Sequence[bytes | memoryview]) -> tuple[bytes, bytes]:
    packed = pickle.dumps(head, 5)
    return _LENGTHS.pack(len(packed), sum(memoryview(part).nbytes for part in body)), packed
