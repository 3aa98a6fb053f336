"""Calls of a user's function on rows: one after the other in C, or several at the same time."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Lock
from types import CoroutineType
from typing import Any, TypeVar, cast

from ..core.context import Context
from ..core.ending import Ending, ProcessResources, RunEnded
from ..core.operator import Operator, StageView
from ..core.rows import Indices, index_array
from ..core.times import Times, times_of_input, waiting
from ..errors import LoaderError, raise_interrupt

T = TypeVar("T")


def map_until_error(
    function: Callable[..., T],
    rows: Sequence[object],
    *,
    user_function: object = None,
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
        raise_interrupt(error)
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
        raise_interrupt(error)
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
        if not call.is_done():
            with waiting("calls"):
                call.wait()
        if call.is_cancelled and self._closed:
            raise RunEnded
        if call.error is not None and not isinstance(call.error, Exception):
            raise call.error
        return call.value, call.error


class ThreadPool(CallPool):
    """Calls functions in threads; `times` are of the thread that begins the calls, if it is seen, and so are these."""

    def __init__(
        self, concurrency: int, resources: ProcessResources, operator: str = "", times: Times | None = None
    ) -> None:
        super().__init__()
        self._operator = operator
        self._times = times
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        Ending(self, partial(self._waiting.put, None))
        self._concurrency = concurrency
        self._started = 0
        self._resources = resources

    def _begin(self, call: PendingCall, function: Callable[..., object], arguments: Sequence[object]) -> None:
        self._waiting.put(partial(_make, call, function, arguments))
        if self._started < self._concurrency and self._started < len(self._calls):  # else a thread is idle
            self._started += 1
            self._resources.start("feedpipe-call", self._make_all(), self.close)

    def _make_all(self) -> Callable[[], None]:
        """What a thread does. It holds no reference to the pool."""
        times = times_of_input(self._times, f"calls of {self._operator}", "input")
        return partial(_make_all, self._waiting, self._operator, times)

    def _end(self) -> None:
        self._waiting.put(None)


def _make_all(waiting: SimpleQueue[Callable[[], object] | None], operator: str, times: Times | None) -> None:
    while (make := waiting.get()) is not None:
        if times is None:
            make()
        else:
            times.call(operator, make)
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
    """A call that was begun and may still run.

    Only queues in C wait for it and end it: an interrupt finds no lock half released, as it does in a `Future`.

    Attributes:
        value, error: the result, or the error, once it has ended.
        stop: ends the call itself, if it can be ended while it runs.
        is_cancelled: nobody needs it any more.
        is_running: a thread runs it, so that nothing can end it early.
        about: what its beginner needs beside the result.
    """

    __slots__ = ("_ended", "_open", "about", "error", "is_cancelled", "is_running", "stop", "value")

    def __init__(self, open_calls: set[PendingCall] | None = None) -> None:
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._open = open_calls
        self.value: object = None
        self.error: BaseException | None = None
        self.stop: Callable[[], object] | None = None
        self.is_cancelled = False
        self.is_running = False
        self.about: Any = None
        if open_calls is not None:
            open_calls.add(self)

    def finish(self, value: object, error: BaseException | None = None) -> None:
        """Note the result or the error, and release whoever waits for it."""
        self.value, self.error = value, error
        self._release()

    def cancel(self) -> None:
        """Release whoever waits for it; it does not begin, or is stopped. One that runs in a thread goes on."""
        if self.is_running or (self.is_done() and not self.is_cancelled):
            return
        self.is_cancelled = True
        stop, self.stop = self.stop, None  # it refers to this call
        if stop is not None:
            stop()
        self._release()

    def start(self) -> bool:
        return True

    def is_done(self) -> bool:
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


def begun_calls(op: Operator, stage: StageView, indices: Indices, context: Context) -> list[PendingCall]:
    """The calls for the rows at `indices`: those begun ahead, and those that `begin` begins now."""
    calls = context.take_started(stage.name, indices)
    missing = [number for number, call in enumerate(calls) if call is None]
    if missing:
        begun = op.begin(stage, index_array(indices)[missing] if len(missing) < len(calls) else indices, context)
        for number, call in zip(missing, begun, strict=True):
            calls[number] = call
    return cast("list[PendingCall]", calls)
