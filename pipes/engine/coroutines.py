"""Coroutine functions of users, on event loops in threads. This module alone imports asyncio, which takes long."""

from __future__ import annotations

import asyncio
from asyncio import sleep as sleep
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, cast

from ..core.ending import Ending, ProcessResources
from .calls import CallPool, PendingCall


class CoroutinePool(CallPool):
    """Awaits coroutine functions on an event loop of its own, which ends after the last of them."""

    def __init__(self, concurrency: int, resources: ProcessResources) -> None:
        super().__init__()
        self._served = _Served(concurrency)
        Ending(self, self._served.stop)
        served = self._served
        resources.start("feedpipe-calls", lambda: asyncio.run(served.run()), self.close)
        self._loop = served.loop.get()

    def _begin(self, call: PendingCall, function: Callable[..., object], arguments: Sequence[object]) -> None:
        call.stop = partial(self._soon, self._served.cancel, call)
        self._soon(self._served.begin, call, function, arguments)

    def _soon(self, step: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(step, *arguments)

    def _end(self) -> None:
        self._served.stop()


class _Served:
    """The thread of a pool, which does not refer to the pool."""

    def __init__(self, concurrency: int) -> None:
        self.loop: SimpleQueue[asyncio.AbstractEventLoop] = SimpleQueue()
        self._room = asyncio.Semaphore(concurrency)
        self._tasks: set[asyncio.Task[object]] = set()
        self._uncancelled: dict[PendingCall, asyncio.Task[object]] = {}
        self._stop: Callable[[], object] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True
        if self._stop is not None:  # else `run` sees that it is stopped
            with suppress(RuntimeError):  # the loop is closed
                self._stop()

    async def run(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = partial(loop.call_soon_threadsafe, stopped.set)
        self.loop.put(loop)
        if not self._is_stopped:
            await stopped.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin(self, call: PendingCall, function: Callable[..., object], arguments: Sequence[object]) -> None:
        """Begin a call. This method and those below run on the loop."""
        if not call.is_cancelled:
            coroutine = cast("Callable[..., Coroutine[Any, Any, object]]", function)
            task = asyncio.create_task(self._await(call, coroutine, arguments))
            self._tasks.add(task)
            self._uncancelled[call] = task
            task.add_done_callback(partial(self._finish, call))

    def cancel(self, call: PendingCall) -> None:
        """Cancel a call once, and no more often, so that a `finally` of the user may await."""
        if (task := self._uncancelled.pop(call, None)) is not None:
            task.cancel()

    async def _await(
        self, call: PendingCall, function: Callable[..., Coroutine[Any, Any, object]], arguments: Sequence[object]
    ) -> object:
        async with self._room:
            del call  # it refers to its error, which refers to this frame
            try:
                return await function(*arguments)
            except (KeyboardInterrupt, SystemExit) as error:  # either would end the loop
                raise RuntimeError(f"the coroutine raised {type(error).__name__}") from error

    def _finish(self, call: PendingCall, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        self._uncancelled.pop(call, None)
        call.stop = None
        if task.cancelled():
            call.finish(None, CancelledError())
        elif (error := task.exception()) is not None:
            call.finish(None, error)
        else:
            call.finish(task.result())


async def within(function: Callable[..., Any], arguments: Sequence[object], timeout: float | None) -> object:
    """Return the result of a coroutine function; raise a `TimeoutError` after `timeout` seconds."""
    if timeout is None:
        return await function(*arguments)
    task = asyncio.ensure_future(function(*arguments))
    try:
        finished, _ = await asyncio.wait([task], timeout=timeout)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    if not finished:
        task.cancel()
        raise TimeoutError(f"the coroutine did not return within {timeout:g} s")
    return task.result()


def complete(function: Callable[..., Any], *arguments: object) -> object:
    """Return the result of a coroutine function. It runs in a thread, because this one may run an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(function(*arguments))).result()
