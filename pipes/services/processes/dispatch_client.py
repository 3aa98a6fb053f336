"""`DispatchClient`: what a worker reads from the dispatcher."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import NoReturn, cast

from ...core.block import Block
from ...core.context import RowsRequest
from ...core.cursor import Cursor
from ...core.rows import BlockRows
from ...errors import Origin
from ..transport.channel import Channel, GoneError, Message
from .dispatch_server import BlockHead
from .protocol import unpack_error, unpack_message


class DispatchClient:
    """Reads rows from the dispatcher; several requests may run at a time, also in several threads."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._count = 0
        self._answers: dict[int, deque[Message]] = {}
        # A garbage collector may close a request at any moment, so it takes no lock: the next message reports it.
        self._closed: deque[int] = deque()

    def rows(self, run: int, request: RowsRequest) -> Iterator[Block]:
        """The rows that `request` names. While one block is in use, the next one is on its way."""
        with self._lock:
            self._count += 1
            number = self._count
            self._answers[number] = deque()
            self._send(("open", number, run, request))
        try:
            while (message := self._answer(number)).head[0] == "block":
                _, _, at, end, _ = cast("BlockHead", message.head)
                rows, origins = cast("tuple[BlockRows, list[Origin | None] | None]", unpack_message(message))
                blocks = [Block(rows, Cursor.of(at), Cursor.of(end), origins)]
                del rows, message  # the receiver of the block holds the only reference
                with self._lock:
                    self._send(("next", number))
                yield blocks.pop()
            if message.head[0] == "failed":
                raise unpack_error(message)
        finally:
            self._closed.append(number)

    def _send(self, head: tuple[object, ...]) -> None:
        try:
            while self._closed:
                number = self._closed.popleft()
                self._answers.pop(number, None)
                self._channel.send(("close", number))
            self._channel.send(head)
        except GoneError:
            _wait_for_end()

    def _answer(self, number: int) -> Message:
        with self._lock:
            while not self._answers[number]:
                try:
                    message = self._channel.receive()
                except GoneError:
                    _wait_for_end()
                assert message is not None, "a channel that waits returns a message"
                if (answers := self._answers.get(cast("int", message.head[1]))) is not None:
                    answers.append(message)
            return self._answers[number].popleft()


def _wait_for_end() -> NoReturn:
    """Waits: the dispatcher is gone, so the owner ends this process, and starts both of them again."""
    while True:
        threading.Event().wait()
