"""Work done ahead of who needs it, by a few threads of this process, and the bytes that may wait for that."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

THREADS = 32
"""Requests at a time; most of that they wait."""
BUDGET = 2**27
"""Bytes that may be fetched ahead in one process."""


class Task(Generic[T]):
    """A call made by a thread ahead, or by who needs the result: whoever comes first. So nobody waits in a queue."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._claim = threading.Lock()  # taken for good by who makes the call
        self._queued = False  # for a thread
        self._done = threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Lets a thread do it, where nobody has begun with it; again and again does no more."""
        if not self._queued and not self._claim.locked():
            self._queued = True
            _pool.add(self)

    def run(self) -> None:
        """Makes the call, if nobody has begun with it."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._result = cast("Callable[[], T]", self._call)()
        except BaseException as error:
            self._error = error
        finally:
            self._call = None
            self._done.set()

    def result(self) -> T:
        """What the call gave; it is made here, or waited for."""
        self.run()
        self._done.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error holds this frame
        return cast("T", self._result)

    @property
    def finished(self) -> T | None:
        """What the call gave, where it has been made."""
        return self._result

    def cancel(self) -> None:
        """Nobody needs the result. It takes no lock that it would wait for: the garbage collector may call it."""
        if self._claim.acquire(blocking=False):
            self._call = None


class _Pool:
    """Threads that run tasks in their order. Each ends when no task is waiting, so nobody has to end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Task[Any]] = deque()
        self._running = 0

    def add(self, task: Task[Any]) -> None:
        with self._lock:
            self._waiting.append(task)
            if self._running == THREADS:
                return
            self._running += 1
        threading.Thread(target=self._work, name="feedpipe-fetch").start()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task.run()
            del task

    def _next(self) -> Task[Any] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


class Budget:
    """Bytes that may be held."""

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._left = most
        self._given: deque[int] = deque()

    def take(self, size: int, *, needed: bool, leaving: int = 0) -> bool:
        """Takes `size` bytes, if as many and `leaving` more are left, or they are needed; whether it did."""
        with self._lock:
            while self._given:
                self._left += self._given.popleft()
            if size + leaving > self._left and not needed:
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        """Gives them back, without a lock: the garbage collector may call it in the midst of `take`."""
        self._given.append(size)


def _begin() -> None:
    global _pool, budget
    _pool = _Pool()
    budget = Budget(BUDGET)


_pool: _Pool
budget: Budget
_begin()
os.register_at_fork(after_in_child=_begin)  # a fork copies no threads
