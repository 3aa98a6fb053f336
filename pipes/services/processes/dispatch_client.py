"""What a worker reads through the dispatcher."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import NoReturn, cast

from ...core.block import Block
from ...core.context import RowsRequest
from ...core.cursor import Cursor, Json
from ...core.rows import BlockRows
from ...errors import Origin
from ..transport.channel import Channel, GoneError, Message
from .protocol import content, failure


class Dispatched:
    """Shares of the rows that a dispatcher makes; several may be read at a time, also from several threads."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._count = 0
        self._come: dict[int, deque[Message]] = {}
        self._over: deque[int] = deque()  # appended to where a collector may be at work: told with the next request

    def rows(self, run: int, share: RowsRequest) -> Iterator[Block]:
        """The rows of `share`; the next block is on its way while one is in use."""
        with self._lock:
            self._count += 1
            number = self._count
            self._come[number] = deque()
            self._ask(("open", number, run, share))
        try:
            while (message := self._next(number)).head[0] == "block":
                *_, at, end, _ = cast("tuple[object, list[Json], list[Json], object]", message.head)
                rows, origins = cast("tuple[BlockRows, list[Origin | None] | None]", content(message))
                made = [Block(rows, Cursor.of(at), Cursor.of(end), origins)]
                del rows, message  # handed on
                with self._lock:
                    self._ask(("next", number))
                yield made.pop()
            if message.head[0] == "failed":
                raise failure(message)
        finally:
            self._over.append(number)

    def _ask(self, head: tuple[object, ...]) -> None:
        try:
            while self._over:
                number = self._over.popleft()
                self._come.pop(number, None)
                self._channel.send(("close", number))
            self._channel.send(head)
        except GoneError:
            _wait_for_end()

    def _next(self, number: int) -> Message:
        with self._lock:
            while not self._come[number]:
                try:
                    message = self._channel.receive()
                except GoneError:
                    _wait_for_end()
                assert message is not None, "a channel that waits gives a message"
                if (others := self._come.get(cast("int", message.head[1]))) is not None:
                    others.append(message)
            return self._come[number].popleft()


def _wait_for_end() -> NoReturn:
    """The dispatcher is gone. The owner has seen it too: it ends this process, and starts both anew."""
    while True:
        threading.Event().wait()
