"""The end of all that runs in this process: `Ending` of a dropped object, `ProcessResources` and `Running` of a run.

A run ends in this order: it refuses new work, tells its threads and resources, closes its generators, and waits for its
threads. `Ending` does this in a thread for a run that nobody refers to any more.
"""

from __future__ import annotations

import atexit
import os
import weakref
from _thread import start_new_thread
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import ExitStack
from functools import partial
from operator import methodcaller
from threading import RLock, Thread
from time import monotonic, sleep
from types import GeneratorType
from typing import Any, Protocol, TypeVar, cast

from ..errors import raise_interrupt

C = TypeVar("C", bound="Closing")
It = TypeVar("It", bound=Iterator[Any])

_START = methodcaller("start")
_live: dict[int, Ending] = {}  # in the order of their making


class Ending(weakref.ref[object]):
    """Ends something once: when it is called, else when its owner was freed, else when the process ends.

    Python drops a KeyboardInterrupt that comes while a finalizer runs. So the callback of this reference is a function
    in C, which starts a thread.

    Args:
        owner: its end is the end of all.
        end: the function to call; must not refer to the owner. It is called again after an error or an interrupt.
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


def ends_are_due() -> bool:
    """Return whether something was freed whose end, which a thread does, is not done yet."""
    return any(weakref.ref.__call__(ending) is None for ending in list(_live.values()))


def _end_in_thread(end: Callable[[], object], process: int) -> None:
    if os.getpid() == process:  # else this is a fork, whose owner has the run
        new_thread("feedpipe-end", end).start()


class RunEnded(BaseException):
    """The run has ended, so its results never come.

    Not an `Exception`: policies for rows that fail, retries and functions of the user let it pass. It ends the threads
    of a run, and no consumer sees it.
    """


class ProcessResources:
    """The threads of a run in one process, and the resources that its shards share there, by key.

    Each step of the end may be repeated, so the next call ends a run that an interrupt has left half ended.

    Attributes:
        closed: whether the run has ended.
    """

    def __init__(self) -> None:
        self.closed = False
        self._threads: list[tuple[Thread, Callable[[], object]]] = []
        self._resources: dict[Hashable, Closing] = {}
        self._lock = RLock()

    def get(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return the resource of that key; the first caller makes it."""
        with self._lock:
            if key not in self._resources:
                self._check_open()
                self._resources[key] = make()
            return cast("C", self._resources[key])

    def start(self, name: str, run: Callable[[], object], stop: Callable[[], object]) -> Thread:
        """Start a thread, which ends soon after a call of `stop`."""
        thread = new_thread(name, run)
        with self._lock:
            self._check_open()
            self._threads = [(other, end) for other, end in self._threads if other.ident is None or other.is_alive()]
            self._threads.append((thread, stop))
        try:
            thread.start()
        except RuntimeError as error:
            raise_interrupt(error)
            raise
        return thread

    def close(self) -> None:
        """Tell all threads and resources that the run has ended."""
        with self._lock:
            self.closed = True
        if not self._resources and not self._threads:
            return
        with ExitStack() as stack:  # the first resource first, and all of them, whatever one raises
            for resource in reversed(self._resources.values()):
                stack.callback(resource.close)
            for _, stop in self._threads:
                stack.callback(stop)
        self._resources.clear()

    def join(self) -> None:
        """End the run, and wait for its threads."""
        self.close()
        self.end_threads()

    def end_threads(self) -> None:
        """End the threads alone, after a look at a single row."""
        while self._threads:
            thread, stop = self._threads[-1]
            stop()
            join(thread)
            self._threads.pop()

    def abandon(self) -> None:
        """End the run, and wait for none of its threads."""
        self.close()
        self._threads.clear()

    def _check_open(self) -> None:
        if self.closed:
            raise RunEnded


class Closing(Protocol):
    def close(self) -> None:
        """Begin no more work, and release all who wait. It is called again if an interrupt has ended it early."""
        ...


class Running:
    """The generators that one thread runs, to be closed by that thread.

    A generator that the garbage collector ends has its `finally` run where Python drops a KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._generators: dict[weakref.ref[Generator[Any]], None] = {}  # in the order of their making

    def add(self, items: It) -> It:
        """Note an iterator, and return it; only a generator has anything to end."""
        if isinstance(items, GeneratorType):
            self._generators[weakref.ref(cast("Generator[Any]", items), self._generators.pop)] = None
        return items

    def part(self) -> Running:
        """The generators of a part of the run, which an operator may close before the others."""
        return Running()

    def close(self) -> None:
        """Close those that are left, inputs first; all of them, whatever one raises."""
        if not self._generators:
            return
        left = [generator for reference in list(self._generators) if (generator := reference()) is not None]
        self._generators.clear()
        with ExitStack() as stack:
            for generator in left:
                stack.callback(generator.close)


# Threads


START_SECONDS = 0.1
"""A thread that has not begun after this time was never started."""
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
    while True:
        try:
            thread.join(None if _exit_at is None else max(0.0, _exit_at - monotonic()))
        except RuntimeError:  # it has not started
            if monotonic() > deadline:
                return
            sleep(0.001)
        else:
            _ended.append(thread)
            return


# The end of the process


EXIT_SECONDS = 5.0
"""The time that the end of the process leaves to functions of the user that still run."""
_exit_at: float | None = None  # when the process ends, if it is about to


@atexit.register
def _end_all() -> None:
    global _exit_at
    _exit_at = monotonic() + EXIT_SECONDS
    with ExitStack() as stack:  # the youngest first, and all of them, whatever one raises
        for ending in list(_live.values()):
            stack.callback(ending)


os.register_at_fork(after_in_child=_live.clear)
