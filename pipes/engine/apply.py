"""Calls a user's function on every row of a block, in C, and keeps the results before a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CoroutineType
from typing import TypeVar

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
