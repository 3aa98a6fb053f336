"""`shared_call_pool`: the calls of an operator, which the shards of a process share."""

from __future__ import annotations

from collections.abc import Callable

from ..core.checks import is_coroutine_function
from ..core.context import Context
from .call_pool import CallPool, ThreadPool


def shared_call_pool(name: str, function: Callable[..., object], concurrency: int, context: Context) -> CallPool:
    """The pool of operator `name` in this process."""
    resources = context.process.resources
    if not is_coroutine_function(function):
        return resources.get(("calls", name), lambda: ThreadPool(concurrency, resources.threads))
    from .coroutines import CoroutinePool

    return resources.get(("calls", name), lambda: CoroutinePool(concurrency, resources.threads))
