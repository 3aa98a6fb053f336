"""The end of what runs in this process: `Ending` for what nobody refers to any more, and `join` for threads."""

from __future__ import annotations

import atexit
import os
import weakref
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from operator import methodcaller
from threading import RLock, Thread
from time import monotonic, sleep

START_SECONDS = 0.1
"""A thread that has not begun for so long was never started."""
EXIT_SECONDS = 5.0
"""How long the end of the process waits for functions of the user that still run."""

_START = methodcaller("start")
_live: dict[int, Ending] = {}  # in the order of their making


class Ending(weakref.ref[object]):
    """Ends something once: when it is called, else when its owner was freed, else when the process ends.

    Python drops a KeyboardInterrupt that comes while a finalizer runs. So the callback of this reference is a function
    in C, which starts a thread.

    Args:
        owner: its end is the end of all.
        end: what to do; must not refer to the owner. It is done again if an error or an interrupt has come between.
    """

    __slots__ = ("_end", "_lock", "start")

    def __new__(cls, owner: object, end: Callable[[], object]) -> Ending:
        return super().__new__(cls, owner, _START)

    def __init__(self, owner: object, end: Callable[[], object]) -> None:
        self._end: Callable[[], object] | None = end
        self._lock = RLock()
        self.start: Callable[[], object] = partial(start_new_thread, _end_in_thread, (self, os.getpid()))
        _live[id(self)] = self

    def __call__(self) -> None:
        """End it here and now. A second caller waits for the first."""
        with self._lock:
            if self._end is not None:
                self._end()
                self._end = None
                self.start = int  # nothing
                _live.pop(id(self), None)


def end_in_thread(end: Callable[[], object]) -> None:
    """Do it soon, in a thread: for finalizers."""
    start_new_thread(_end_in_thread, (end, os.getpid()))


def _end_in_thread(end: Callable[[], object], process: int) -> None:
    if os.getpid() == process:  # else this is a fork, whose owner has the run
        new_thread("feedpipe-end", end).start()


_ended: list[Thread] = []


def new_thread(name: str, run: Callable[[], object]) -> Thread:
    """A thread that does not keep the process alive.

    Python runs code of its own where a `Thread` is freed, so the next thread frees those that have ended.
    """

    def run_alone() -> None:
        _ended.clear()
        run()

    return Thread(target=run_alone, name=name, daemon=True)


def join(thread: Thread) -> None:
    """Wait for a thread that was told to end, unless an interrupt has kept it from starting."""
    deadline = monotonic() + START_SECONDS
    while thread.ident is None:
        if monotonic() > deadline:
            return
        sleep(0.001)
    thread.join(None if _exit_at is None else max(0.0, _exit_at - monotonic()))
    _ended.append(thread)


_exit_at: float | None = None  # when the process ends, if it is about to


@atexit.register
def _end_all() -> None:
    global _exit_at
    _exit_at = monotonic() + EXIT_SECONDS
    with ExitStack() as stack:  # the youngest first, and all of them, whatever one raises
        for ending in list(_live.values()):
            stack.callback(ending)


os.register_at_fork(after_in_child=_live.clear)
