"""Calls of a user's function on rows: one after the other in C, or several at the same time."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Lock
from types import CoroutineType
from typing import NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import nbytes
from ..core.context import Context
from ..core.ending import Ending, ProcessResources, RunEnded
from ..core.rows import BlockRows
from ..core.skips import Skipped
from ..core.times import waiting
from ..errors import LoaderError

T = TypeVar("T")
U = TypeVar("U")


def map_until_error(
    function: Callable[..., T], rows: Sequence[object], *, user_function: object = None
) -> tuple[list[T], Exception | None]:
    """The results of `function` up to the first failure, and that failure: the row after the last result failed.

    Args:
        user_function: the user's own function, if `function` only calls it; errors name it.
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


# Concurrent calls


CALLS_AHEAD = 4
"""The calls begun or finished ahead of their consumer, for each call that may run at a time."""
MAX_BYTES_AHEAD = 2**28
"""The most bytes of results of calls ahead."""


class CallPool(ABC):
    """Makes up to `concurrency` calls at a time."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._closed = False
        self._lock = Lock()
        self._calls: set[PendingCall] = set()  # without a result

    def submit(self, function: Callable[..., object], *arguments: object) -> PendingCall:
        """Begin a call as soon as fewer than `concurrency` run."""
        with self._lock:
            if self._closed:
                raise RunEnded
            call = PendingCall(self._calls)
            self._begin(call, function, arguments)
            return call

    def close(self) -> None:
        """Begin no more calls, and cancel all that have no result; nobody waits for one of them."""
        with self._lock:
            self._closed = True
        for call in list(self._calls):
            call.cancel()
        self._end()

    @abstractmethod
    def _begin(self, call: PendingCall, function: Callable[..., object], arguments: Sequence[object]) -> None: ...

    @abstractmethod
    def _end(self) -> None:
        """Let the threads end once their calls have."""

    def result(self, call: PendingCall) -> tuple[object, Exception | None]:
        """Wait for a call; return its result or its error."""
        if os.getpid() != self._process:
            raise LoaderError(
                "the threads of `concurrency=` belong to the process that started them; begin a new iterator here"
            )
        if not call.done():
            with waiting("calls"):
                call.wait()
        if call.is_cancelled and self._closed:
            raise RunEnded
        if call.error is not None and not isinstance(call.error, Exception):
            raise call.error
        return call.value, call.error

    def results(self, calls: Sequence[BegunCall]) -> tuple[list[object], Exception | None]:
        """Return the results up to the first failure, and that failure; cancel the later calls."""
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
    ) -> Generator[tuple[U, PendingCall]]:
        """Begin calls ahead of the consumer, and give them in order.

        Args:
            function: to call.
            calls: for each call a name, which comes back with it, and the arguments; without arguments nothing is
                called. An error is raised in its turn.
            limit: of the calls ahead.
        """
        waiting: deque[tuple[U, PendingCall]] = deque()
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


class ThreadPool(CallPool):
    """Calls functions in threads."""

    def __init__(self, concurrency: int, resources: ProcessResources) -> None:
        super().__init__()
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        Ending(self, partial(self._waiting.put, None))
        self._concurrency = concurrency
        self._started = 0
        self._resources = resources

    def _begin(self, call: PendingCall, function: Callable[..., object], arguments: Sequence[object]) -> None:
        self._waiting.put(partial(_make, call, function, arguments))
        if self._started < self._concurrency and self._started < len(self._calls):  # else a thread is idle
            self._started += 1
            self._resources.start("feedpipe-call", partial(_make_all, self._waiting), self.close)

    def _end(self) -> None:
        self._waiting.put(None)


def _make_all(waiting: SimpleQueue[Callable[[], object] | None]) -> None:
    while (make := waiting.get()) is not None:
        make()
        del make
    waiting.put(None)  # for the next thread


def _make(call: PendingCall, function: Callable[..., object], arguments: Sequence[object]) -> None:
    if not call.is_cancelled:
        call.is_running = True
        try:
            call.finish(_call(function, *arguments))
        except BaseException as error:
            call.finish(None, error)
            del call  # the error refers to this frame


def _call(function: Callable[..., object], *arguments: object) -> object:
    try:
        result = function(*arguments)
    except StopIteration as error:  # raised again by `result`, it would mean the end of the rows
        raise stop_iteration_error(function) from error
    if (coroutine_error := forgotten_coroutine_error(result, function)) is not None:
        raise coroutine_error
    return result


class PendingCall:
    """A call that may still run.

    Only queues in C wait for it and end it: an interrupt finds no lock half released, as it does in a `Future`.

    Attributes:
        value, error: the result, or the error, once it has ended.
        stop: ends the call itself, if it can be ended while it runs.
        is_cancelled: nobody needs it any more.
        is_running: a thread runs it, so that nothing can end it early.
    """

    __slots__ = ("_ended", "_open", "error", "is_cancelled", "is_running", "stop", "value")

    def __init__(self, open_calls: set[PendingCall] | None = None) -> None:
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._open = open_calls
        self.value: object = None
        self.error: BaseException | None = None
        self.stop: Callable[[], object] | None = None
        self.is_cancelled = False
        self.is_running = False
        if open_calls is not None:
            open_calls.add(self)

    def finish(self, value: object, error: BaseException | None = None) -> None:
        """Note the result or the error, and release whoever waits for it."""
        self.value, self.error = value, error
        self._release()

    def cancel(self) -> None:
        """Release whoever waits for it; it does not begin, or is stopped. One that runs in a thread goes on."""
        if self.is_running or (self.done() and not self.is_cancelled):
            return
        self.is_cancelled = True
        if self.stop is not None:
            self.stop()
        self._release()

    def done(self) -> bool:
        return not self._ended.empty()

    def wait(self) -> None:
        self._ended.get()
        self._ended.put(None)

    def _release(self) -> None:
        self._ended.put(None)
        if self._open is not None:
            self._open.discard(self)


def done(result: object) -> PendingCall:
    """A call that has returned."""
    call = PendingCall()
    call.finish(result)
    return call


class BegunCall(NamedTuple):
    """A call that was begun before its rows are asked for.

    Attributes:
        future: its result.
        group: the number of its group, if a call is for several rows.
        skipped: the rows skipped before it, or the skipped row itself.
        row: the row, if it is needed when the call fails.
    """

    future: PendingCall
    group: int = 0
    skipped: Skipped | None = None
    row: object = None

    def start(self) -> None:
        pass

    def is_done(self) -> bool:
        return self.future.done()

    def cancel(self) -> None:
        self.future.cancel()


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


class AheadLimit:
    """The limit of calls that one shard begins ahead. The shards of a process share the calls and their bytes.

    Attributes:
        calls: the limit now; at least 1.
    """

    def __init__(self, calls: int, context: Context) -> None:
        self._shards = max(1, len(context.process.shards))
        self._most = calls
        self.calls = max(1, calls // self._shards)

    def measure(self, rows: BlockRows, calls: int) -> None:
        """Adapt the limit to the size of the results of some calls."""
        fitting = MAX_BYTES_AHEAD * calls // max(1, nbytes(rows))
        self.calls = max(1, min(self._most, fitting) // self._shards)
