"""`Background`: a reading service that runs the pipe in a thread, ahead of the training loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Condition, Thread, current_thread
from typing import TypeAlias

import feedpipe as fp
from feedpipe.extensions import Executor, Plan, Position, Session, ShardEnd, Step

Item: TypeAlias = "Step | ShardEnd | BaseException | None"
"""What the thread hands over; an error, or None at the end, is the last item."""


@dataclass(frozen=True)
class Background:
    """Runs a pipe in one thread of this process.

    Args:
        prefetch: how many elements the thread keeps ready.
    """

    prefetch: int = 2

    @property
    def workers(self) -> int:
        return 0

    @property
    def global_generators(self) -> bool:
        return False

    def start(self) -> BackgroundExecutor:
        return BackgroundExecutor(self.prefetch)


class BackgroundExecutor:
    """What one loader has of the service."""

    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        self._executor: Executor = fp.InProcess().start()

    def open(self, plan: Plan, position: Position, epoch: int) -> BackgroundSession:
        return BackgroundSession(self._executor.open(plan, position, epoch), self._prefetch)

    def close(self) -> None:
        self._executor.close()


class BackgroundSession:
    """One run. It ends when it is closed or dropped."""

    def __init__(self, session: Session, prefetch: int) -> None:
        self._buffer = _Buffer(prefetch)
        # The thread knows the buffer but not this object, so that dropping this object ends the thread.
        self._thread = Thread(target=_read, args=(session, self._buffer), name="feedpipe-example", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return iter(self._buffer)

    def close(self) -> None:
        self._buffer.close()
        if self._thread is not current_thread():  # the garbage collector may run in any thread
            self._thread.join()

    def __del__(self) -> None:
        self.close()


def _read(session: Session, buffer: _Buffer) -> None:
    try:
        for item in session:
            if not buffer.put(item):
                break
            del item  # an element belongs to its consumer
        else:
            buffer.put(None)
    except BaseException as error:
        buffer.put(error)
    finally:
        session.close()


class _Buffer:
    """Items on their way from the thread to the training loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[Item] = deque()
        self._open = True
        self._changed = Condition()

    def put(self, item: Item) -> bool:
        """Waits for room; False if the session is closed."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < self._size or not self._open)
            if self._open:
                self._items.append(item)
                self._changed.notify_all()
            return self._open

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._items) or not self._open)
                item = self._items.popleft() if self._items else None
                self._changed.notify_all()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
            del item

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._items.clear()
            self._changed.notify_all()
