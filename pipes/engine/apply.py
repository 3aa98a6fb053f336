"""Calling a user's function on every row of a block, in C, without losing what came before a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def map_until_error(function: Callable[..., T], rows: Sequence[object]) -> tuple[list[T], Exception | None]:
    """`function` of each row, up to the first failure, and that failure; the failing row is the one after the last."""
    made: list[T] = []
    try:
        # `extend` keeps what it got when the iterator fails.
        made.extend(map(function, rows))
    except Exception as error:
        return made, error
    # `map` takes a StopIteration of the function for the end of its input.
    return made, None if len(made) == len(rows) else stop_iteration_error(function)


def extend_until_error(made: Iterable[T], into: list[T]) -> Exception | None:
    """Extends `into`; the failure, if there is one."""
    try:
        into.extend(made)
    except Exception as error:
        return error
    return None


def items_left(iterator: Iterator[object]) -> int:
    """How many items a list's iterator still holds."""
    return iterator.__length_hint__()  # type: ignore[attr-defined, no-any-return]


def stop_iteration_error(function: object) -> Exception:
    """The error of a function that raised StopIteration, which Python would take for the end of the rows."""
    name = getattr(function, "__qualname__", repr(function))
    return RuntimeError(f"{name} raised StopIteration; give `next()` a default, or handle the end")
