"""Calls that are repeated when they fail, and the pool of calls that the shards of a process share."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from ..core.checks import is_coroutine_function
from ..core.context import Context
from ..core.skips import Retry, check_retry
from ..errors import raise_interrupt
from .calls import CallPool, ThreadPool


def retrying(function: Callable[..., Any], repeats: int | Retry, operator: str, context: Context) -> Callable[..., Any]:
    """`function`, repeated on failure as `repeats` says; a coroutine function stays one.

    Each call of a row draws the same random numbers. Repeated calls are counted for the operator of that name.
    """
    if not repeats:
        return function
    retry = check_retry(repeats)
    count = partial(context.pacing.clock.count, "retries", operator, 1)
    if not retry.times and retry.timeout is None:
        return function
    if is_coroutine_function(function):
        return _retrying_coroutine(function, retry, count)

    @wraps(function, updated=())
    def call(*arguments: object) -> object:
        rewind = _rewinding(arguments)
        for attempt in range(retry.times):
            try:
                return function(*arguments)
            except retry.on as error:
                raise_interrupt(error)
                count()
                time.sleep(retry.backoff * 2**attempt)
                rewind()
        return function(*arguments)

    return call


def _retrying_coroutine(function: Callable[..., Any], retry: Retry, count: Callable[[], object]) -> Callable[..., Any]:
    from . import coroutines

    async def call(*arguments: object) -> object:
        rewind = _rewinding(arguments)
        for attempt in range(retry.times):
            try:
                return await coroutines.within(function, arguments, retry.timeout)
            except retry.on:
                count()
                await coroutines.sleep(retry.backoff * 2**attempt)
                rewind()
        return await coroutines.within(function, arguments, retry.timeout)

    return call


def _rewinding(arguments: tuple[object, ...]) -> Callable[[], None]:
    """A function that restores the present state of each random generator among `arguments`."""
    generators = [argument for argument in arguments if isinstance(argument, np.random.Generator)]
    states = [generator.bit_generator.state for generator in generators]

    def rewind() -> None:
        for generator, state in zip(generators, states, strict=True):
            generator.bit_generator.state = state

    return rewind


def shared_call_pool(name: str, function: Callable[..., object], concurrency: int, context: Context) -> CallPool:
    """The pool of operator `name` in this process."""
    resources = context.process.resources
    if not is_coroutine_function(function):
        thread = context.pacing.clock.thread
        return resources.get(("calls", name), lambda: ThreadPool(concurrency, resources, name, thread))
    from .coroutines import CoroutinePool

    return resources.get(("calls", name), lambda: CoroutinePool(concurrency, resources))
