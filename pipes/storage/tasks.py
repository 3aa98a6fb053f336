"""Calls that threads of this process make early, within a budget of bytes for their results."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Generic, TypeVar, cast

from ..core.times import waiting
from ..engine.ahead import Limit, in_order

T = TypeVar("T")
U = TypeVar("U")

MAX_THREADS = 32
"""Requests at a time. The threads mostly wait, so there may be more of them than cores."""
IDLE_SECONDS = 0.01
"""The wait of a thread for another task. Starting a thread takes longer than reading the footer of a local file."""
BUDGET_BYTES = 2**27
"""Bytes that one process may fetch early."""


class Task(Generic[T]):
    """A call made by a thread of the pool or by the first caller of `result`, whichever comes first.

    So a caller who needs the result never waits in the pool's queue.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._claim = threading.Lock()  # acquired by the thread that makes the call, and never released
        self._queued = False
        self._done = threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._process = _process

    def start(self) -> bool:
        """Put the call into the pool's queue, unless it is there or somebody has made it; return True."""
        self._renew_after_fork()
        if not self._queued and not self._claim.locked():
            self._queued = True
            _pool.add(self)
        return True

    def is_done(self) -> bool:
        """Return whether the call has been made."""
        return self._done.is_set()

    def run(self) -> None:
        """Make the call, unless another thread has begun it."""
        self._renew_after_fork()
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._result = cast("Callable[[], T]", self._call)()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()
            self._call = None

    def _renew_after_fork(self) -> None:
        """Forget, in a forked process, a call that a thread of the parent has begun: that thread is not here."""
        if self._process is _process:
            return
        with _process.renewal:
            if self._process is _process:
                return
            done, self._done = self._done.is_set(), threading.Event()
            if done:
                self._done.set()
            else:
                self._claim, self._queued = threading.Lock(), False
            self._process = _process

    def result(self) -> T:
        """Make the call or wait for it; return its result or raise its error."""
        if not self._done.is_set():
            with waiting("storage"):
                self.run()
                self._done.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error's traceback holds this frame
        return cast("T", self._result)

    @property
    def result_if_done(self) -> T | None:
        """The result, or None while the call has not returned."""
        return self._result

    def cancel(self) -> None:
        """Say that nobody needs the result. Wait for no lock, so the garbage collector may call it."""
        if self._claim.acquire(blocking=False):
            self._call = None


def in_turn(function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """Work as `map` does, but a StopIteration of `function`, say of a user's file system, is no end of the items.

    Python makes a RuntimeError of it, because this is a generator; so it does in `in_threads`.
    """
    for item in items:
        yield function(item)


def in_threads(function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """Work as `map` does, in order, but several calls run at the same time; an error is raised in its turn.

    This thread makes the first call: it may be the only one.
    """
    with closing(in_order(iter(items), lambda item, early: Task(partial(function, item)), Limit(MAX_THREADS))) as tasks:
        for _, task in tasks:
            yield task.result()


class _Pool:
    """Threads that run tasks in the order of the queue. They end soon after it is empty, so none needs a stop."""

    def __init__(self) -> None:
        self._queue: deque[Task[Any]] = deque()
        self._lock = threading.RLock()  # acquired and released in C, where no interrupt comes between
        self._changed = threading.Condition(self._lock)
        self._running = 0
        self._idle = 0

    def add(self, task: Task[Any]) -> None:
        with self._lock:
            self._queue.append(task)
            if self._idle >= len(self._queue):
                self._changed.notify()
                return
            if self._running == MAX_THREADS:
                return
            self._running += 1
        threading.Thread(target=self._work, name="feedpipe-fetch").start()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task.run()
            del task

    def _next(self) -> Task[Any] | None:
        with self._lock:
            if not self._queue:
                self._idle += 1
                self._changed.wait_for(lambda: self._queue, IDLE_SECONDS)
                self._idle -= 1
            if self._queue:
                return self._queue.popleft()
            self._running -= 1
            return None


class Budget:
    """A number of bytes that all early fetches of a process share."""

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._left = size
        self._released: deque[int] = deque()

    def acquire(self, size: int, *, needed: bool, reserve: int = 0) -> bool:
        """Take `size` bytes if they and `reserve` more are left, or if they are needed; return True if taken."""
        with self._lock:
            self._count_released()
            if size + reserve > self._left and not needed:
                return False
            self._left -= size
            return True

    def left(self) -> int:
        """The bytes that nobody has taken; below 0 if more were needed."""
        with self._lock:
            self._count_released()
            return self._left

    def release(self, size: int) -> None:
        """Give bytes back. Take no lock: the garbage collector may call it while `acquire` runs."""
        self._released.append(size)

    def _count_released(self) -> None:
        while self._released:
            self._left += self._released.popleft()


class _Process:
    """Identifies this process, so that a task knows whether it began in the process that forked this one."""

    def __init__(self) -> None:
        self.renewal = threading.Lock()


def _reset() -> None:
    global _process, _pool, budget
    _process = _Process()
    _pool = _Pool()
    budget = Budget(BUDGET_BYTES)


_process: _Process
_pool: _Pool
budget: Budget
_reset()
os.register_at_fork(after_in_child=_reset)  # a forked process has none of the threads
