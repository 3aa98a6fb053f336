"""Calls a user's function on every row of a block, in C, and keeps the results before a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def map_until_error(function: Callable[..., T], rows: Sequence[object]) -> tuple[list[T], Exception | None]:
    """The results of `function` up to the first failure, and that failure: the row after the last result failed."""
    results: list[T] = []
    try:
        # `extend` keeps what it got before the iterator fails.
        results.extend(map(function, rows))
    except Exception as error:
        return results, error
    # `map` takes a StopIteration of the function for the end of its input.
    return results, None if len(results) == len(rows) else stop_iteration_error(function)


def extend_until_error(items: Iterable[T], into: list[T]) -> Exception | None:
    """Extends `into` by the items before the first failure; returns that failure."""
    try:
        into.extend(items)
    except Exception as error:
        return error
    return None


def items_left(iterator: Iterator[object]) -> int:
    """How many items a list's iterator has left."""
    return iterator.__length_hint__()  # type: ignore[attr-defined, no-any-return]


def stop_iteration_error(function: object) -> Exception:
    """The error of a function that raised StopIteration, which Python takes for the end of the rows."""
    name = getattr(function, "__qualname__", repr(function))
    return RuntimeError(f"{name} raised StopIteration; give `next()` a default, or handle the end")
