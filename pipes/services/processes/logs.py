"""Records of `logging` in workers: they go to the handlers of the program."""

from __future__ import annotations

import logging
import os
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock

from ..transport.channel import Channel, GoneError, Head

_PLAIN = (type(None), bool, int, float, str, bytes)
_FORMATTER = logging.Formatter()


class LogRecords(logging.Handler):
    """Gathers the records of this process that no handler here takes: a user's function may have its own.

    `notify` is called after each record; those in `waiting` are pickled, and still to be sent.
    """

    def __init__(self, notify: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.waiting: deque[bytes] = deque()
        self._notify = notify
        self._process = os.getpid()
        self._before = logging.lastResort
        logging.lastResort = self

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() != self._process:  # a copy that a user's function has forked
            if self._before is not None and record.levelno >= self._before.level:
                self._before.handle(record)
            return
        try:
            self.waiting.append(_packed(record))
            if self._notify is not None:
                self._notify()
        except Exception:
            self.handleError(record)

    def take(self) -> list[bytes]:
        """The records that wait, which the caller sends."""
        return [self.waiting.popleft() for _ in range(len(self.waiting))]


def _packed(record: logging.LogRecord) -> bytes:
    values = dict(vars(record), msg=record.getMessage(), args=None, exc_info=None)
    if record.exc_info and not record.exc_text:
        values["exc_text"] = _FORMATTER.formatException(record.exc_info)
    plain = {name: value if type(value) in _PLAIN else repr(value) for name, value in values.items()}
    return pickle.dumps(plain)


def handle_records(records: object) -> None:
    """Give records of another process to the handlers of this one."""
    for packed in records if isinstance(records, list) else ():
        record = logging.makeLogRecord(pickle.loads(packed))
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


class WorkerLine:
    """Sends the messages of a worker, and records of all its threads between them.

    A record may come at any moment, also from a garbage collector that runs amid a message. It then waits for the end
    of that message.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = Lock()
        self._records = LogRecords(self._send_records)

    def send(self, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message, and wait until the system has taken it.

        Raises:
            GoneError: the owner is gone.
        """
        with self._lock:
            self._channel.send(head, body)
        self._send_records()

    def _send_records(self) -> None:
        while self._records.waiting and self._lock.acquire(blocking=False):  # else the holder sends them
            try:
                with suppress(GoneError):
                    self._channel.send(("log", self._records.take()))
            finally:
                self._lock.release()
