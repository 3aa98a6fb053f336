"""Calls of a user's function on rows: one after the other in C, or several at the same time."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import SimpleQueue
from threading import Lock
from types import CoroutineType
from typing import NamedTuple, TypeVar, cast
from weakref import finalize

import numpy as np
import numpy.typing as npt

from ..core.block import nbytes
from ..core.context import Context
from ..core.ending import ProcessResources, RunEnded
from ..core.rows import BlockRows
from ..core.skips import Skipped
from ..errors import LoaderError

T = TypeVar("T")


def map_until_error(
    function: Callable[..., T], rows: Sequence[object], *, user_function: object = None
) -> tuple[list[T], Exception | None]:
    """The results of `function` up to the first failure, and that failure: the row after the last result failed.

    Args:
        user_function: what `function` calls, if that is not the user's own; errors name it.
    """
    results: list[T] = []
    try:
        # `extend` keeps what it got before the iterator fails.
        results.extend(map(function, rows))
    except Exception as error:
        return results, error
    if results and (coroutine_error := forgotten_coroutine_error(results[0], user_function or function)):
        return [], coroutine_error
    # `map` takes a StopIteration of the function for the end of the rows.
    return results, None if len(results) == len(rows) else stop_iteration_error(user_function or function)


def extend_until_error(items: Iterable[T], into: list[T]) -> Exception | None:
    """Extends `into` by the items before the first failure; returns that failure."""
    try:
        into.extend(items)
    except Exception as error:
        return error
    return None


def forgotten_coroutine_error(result: object, function: object) -> Exception | None:
    """The error of a plain function that returned a coroutine, which nobody would await."""
    if type(result) is not CoroutineType:
        return None
    result.close()
    name = getattr(function, "__qualname__", repr(function))
    return TypeError(f"{name} returned a coroutine, which is not awaited; give `map` the `async def` function itself")


def stop_iteration_error(function: object) -> Exception:
    """The error of a function that raised StopIteration, which Python takes for the end of the rows."""
    name = getattr(function, "__qualname__", repr(function))
    return RuntimeError(f"{name} raised StopIteration; give `next()` a default, or handle the end")


# Calls of a user's function at the same time: in threads here, as coroutines in `coroutines.py`.


U = TypeVar("U")

CALLS_AHEAD = 4
"""For each call that may run at a time, so many are begun, or finished, before their results are asked for."""
MAX_BYTES_AHEAD = 2**28
"""Fewer calls are begun ahead if their results are longer than that together."""


class CallPool(ABC):
    """Makes up to `concurrency` calls at a time."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._closed = False
        self._lock = Lock()
        self._calls: set[Future[object]] = set()  # without a result

    def submit(self, function: Callable[..., object], *arguments: object) -> Future[object]:
        """Begin a call as soon as fewer than `concurrency` run."""
        with self._lock:
            if self._closed:
                raise RunEnded
            call = self._begin(function, arguments)
            self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def close(self) -> None:
        """Begin no more calls, and cancel all that have no result; nobody waits for one of them."""
        with self._lock:
            self._closed = True
        for call in list(self._calls):
            call.cancel()
        self._end()

    @abstractmethod
    def _begin(self, function: Callable[..., object], arguments: Sequence[object]) -> Future[object]: ...

    @abstractmethod
    def _end(self) -> None:
        """Let the threads end once their calls have."""

    def result(self, call: Future[object]) -> tuple[object, Exception | None]:
        """What a call returned, or its error; waits for it."""
        if os.getpid() != self._process:
            raise LoaderError(
                "the threads of `concurrency=` belong to the process that started them; begin a new iterator here"
            )
        try:
            return call.result(), None
        except CancelledError as error:
            if self._closed:
                raise RunEnded from None
            return None, error  # a coroutine has cancelled itself
        except Exception as error:
            return None, error

    def results(self, calls: Sequence[BegunCall]) -> tuple[list[object], Exception | None]:
        """What the calls returned up to the first failure, and that failure; the later ones are cancelled."""
        results: list[object] = []
        for call in calls:
            result, error = self.result(call.future)
            if error is not None:
                for later in calls[len(results) + 1 :]:
                    later.cancel()
                return results, error
            results.append(result)
        return results, None

    def in_order(
        self, function: Callable[..., object], calls: Iterator[tuple[U, Sequence[object] | None]], limit: AheadLimit
    ) -> Generator[tuple[U, Future[object]]]:
        """Begins calls ahead of the consumer, and gives them in order.

        Args:
            function: to call.
            calls: for each call a name, which comes back with it, and the arguments; without arguments nothing is
                called. An error is raised in its turn.
            limit: how many calls are begun before their results are asked for.
        """
        waiting: deque[tuple[U, Future[object]]] = deque()
        failure: Exception | None = None
        try:
            while True:
                begun = False  # the next arguments may take long, so a result that is ready comes first
                while failure is None and len(waiting) < limit.calls and not (begun and waiting[0][1].done()):
                    try:
                        name, arguments = next(calls)
                    except Exception as error:
                        failure = error
                        break
                    waiting.append((name, done(None) if arguments is None else self.submit(function, *arguments)))
                    begun = True
                if not waiting:
                    break
                yield waiting.popleft()
            if failure is not None and not isinstance(failure, StopIteration):
                raise failure
        finally:
            for _, call in waiting:
                call.cancel()


class AheadLimit:
    """How many calls one shard begins ahead. The shards of a process share a number of calls, and their bytes.

    Attributes:
        calls: the limit now; at least 1.
    """

    def __init__(self, calls: int, context: Context) -> None:
        self._shards = max(1, len(context.process.shards))
        self._most = calls
        self.calls = max(1, calls // self._shards)

    def measure(self, rows: BlockRows, calls: int) -> None:
        """Adapts the limit to the size of the results of so many calls."""
        fitting = MAX_BYTES_AHEAD * calls // max(1, nbytes(rows))
        self.calls = max(1, min(self._most, fitting) // self._shards)


class BegunCall(NamedTuple):
    """A call that was begun before its rows are asked for.

    Attributes:
        future: its result.
        group: the number of its group, if a call is for several rows.
        skipped: what was skipped before the row, or stands in its place.
        row: the row, if it is needed when the call fails.
    """

    future: Future[object]
    group: int = 0
    skipped: Skipped | None = None
    row: object = None

    def start(self) -> None:
        pass

    def is_done(self) -> bool:
        return self.future.done()

    def cancel(self) -> None:
        self.future.cancel()


def done(result: object) -> Future[object]:
    """A call that has returned."""
    future: Future[object] = Future()
    future.set_result(result)
    return future


def begun_calls(
    begin: Callable[[npt.NDArray[np.int64]], Sequence[BegunCall]],
    stage: object,
    positions: Sequence[int],
    context: Context,
) -> list[BegunCall]:
    """The calls for the rows at `positions` of a stage: those begun ahead, and those that `begin` begins now."""
    calls = [cast("BegunCall | None", context.take_started(stage, position)) for position in positions]
    missing = [position for position, call in zip(positions, calls, strict=True) if call is None]
    others = iter(begin(np.array(missing)) if missing else ())
    return [next(others) if call is None else call for call in calls]


class ThreadPool(CallPool):
    """Calls functions in threads."""

    def __init__(self, concurrency: int, resources: ProcessResources) -> None:
        super().__init__()
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._dropped = finalize(self, self._waiting.put, None)
        self._concurrency = concurrency
        self._started = 0
        self._resources = resources

    def _begin(self, function: Callable[..., object], arguments: Sequence[object]) -> Future[object]:
        call: Future[object] = Future()
        self._waiting.put(partial(_make, call, function, arguments))
        if self._started < self._concurrency and self._started <= len(self._calls):  # else a thread is idle
            self._started += 1
            self._resources.start("feedpipe-call", partial(_make_all, self._waiting), self.close)
        return call

    def _end(self) -> None:
        self._waiting.put(None)


def _make_all(waiting: SimpleQueue[Callable[[], object] | None]) -> None:
    while (make := waiting.get()) is not None:
        make()
        del make
    waiting.put(None)  # for the next thread


def _make(call: Future[object], function: Callable[..., object], arguments: Sequence[object]) -> None:
    if call.set_running_or_notify_cancel():
        try:
            call.set_result(_call(function, *arguments))
        except BaseException as error:
            call.set_exception(error)
            del call  # the error refers to this frame


def _call(function: Callable[..., object], *arguments: object) -> object:
    try:
        result = function(*arguments)
    except StopIteration as error:  # raised again by `result`, it would mean the end of the rows
        raise stop_iteration_error(function) from error
    if (coroutine_error := forgotten_coroutine_error(result, function)) is not None:
        raise coroutine_error
    return result
