"""Coroutine functions of users, on event loops in threads. It alone imports asyncio, which takes long."""

from __future__ import annotations

import asyncio
from asyncio import sleep as sleep
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, cast
from weakref import finalize

from ..core.ending import ProcessResources
from .calls import CallPool


class CoroutinePool(CallPool):
    """Awaits coroutine functions on an event loop of its own, which ends after the last of them."""

    def __init__(self, concurrency: int, resources: ProcessResources) -> None:
        super().__init__()
        self._served = served = _Served()
        self._room = asyncio.Semaphore(concurrency)
        self._dropped = finalize(self, served.stop)
        resources.start("feedpipe-calls", lambda: asyncio.run(served.run()), self.close)
        self._loop = served.loop.get()

    def _begin(self, function: Callable[..., object], arguments: Sequence[object]) -> Future[object]:
        call = cast("Callable[..., Coroutine[Any, Any, object]]", function)
        return asyncio.run_coroutine_threadsafe(_await(self._room, call, arguments), self._loop)

    def _end(self) -> None:
        self._served.stop()


class _Served:
    """The thread of a pool, which does not refer to the pool."""

    def __init__(self) -> None:
        self.loop: SimpleQueue[asyncio.AbstractEventLoop] = SimpleQueue()
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
        # Each call was cancelled once, and no more often, so that a `finally` of the user may await.
        calls = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "cr_code", None) is _await.__code__]
        await asyncio.gather(*calls, return_exceptions=True)


async def _await(
    room: asyncio.Semaphore, function: Callable[..., Coroutine[Any, Any, object]], arguments: Sequence[object]
) -> object:
    async with room:
        try:
            return await function(*arguments)
        except (KeyboardInterrupt, SystemExit) as error:  # either would end the loop
            raise RuntimeError(f"the coroutine raised {type(error).__name__}") from error


async def within(function: Callable[..., Any], arguments: Sequence[object], timeout: float | None) -> object:
    """What a coroutine function returns; after so many seconds, a `TimeoutError`."""
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
    """What a coroutine function returns. It runs in a thread, for this one may be that of an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(function(*arguments))).result()
