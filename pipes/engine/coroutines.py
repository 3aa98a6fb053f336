"""Coroutine functions of users, on event loops in threads. It alone imports asyncio, which takes long."""

from __future__ import annotations

import asyncio
import weakref
from asyncio import sleep as sleep
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Any, cast

from .calls import CallPool


class CoroutinePool(CallPool):
    """Awaits coroutine functions on an event loop of its own.

    Args:
        concurrency: how many of them run at a time.
        threads: gets the thread of the loop, for the session to join.
    """

    def __init__(self, concurrency: int, threads: list[Thread]) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._room = asyncio.Semaphore(concurrency)
        self._stop = weakref.finalize(self, _stop, self._loop)
        thread = Thread(target=_run, args=(self._loop,), name="feedpipe-calls", daemon=True)
        threads.append(thread)
        thread.start()

    def submit(self, function: Callable[..., object], *arguments: object) -> Future[object]:
        call = cast("Callable[..., Coroutine[Any, Any, object]]", function)
        return asyncio.run_coroutine_threadsafe(_await(self._room, call, arguments), self._loop)

    def close(self) -> None:
        self._stop()


async def _await(
    room: asyncio.Semaphore, function: Callable[..., Coroutine[Any, Any, object]], arguments: Sequence[object]
) -> object:
    async with room:
        try:
            return await function(*arguments)
        except (KeyboardInterrupt, SystemExit) as error:  # either would end the loop
            raise RuntimeError(f"the coroutine raised {type(error).__name__}") from error


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(loop.stop)


async def within(function: Callable[..., Any], arguments: Sequence[object], timeout: float | None) -> object:
    """What a coroutine function returns; after so many seconds, a `TimeoutError`."""
    task = asyncio.ensure_future(function(*arguments))
    finished, _ = await asyncio.wait([task], timeout=timeout)
    if not finished:
        task.cancel()
        raise TimeoutError(f"the coroutine did not return within {timeout:g} s")
    return task.result()


def complete(function: Callable[..., Any], *arguments: object) -> object:
    """What a coroutine function returns. It runs in a thread, for this one may be that of an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(function(*arguments))).result()
