"""Errors of calls with an argument that a function does not have: they name the one that was meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..errors import ArgumentTypeError, with_call_site

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_MEANT = {  # what other libraries call an argument, and the names here
    "ahead": ("count", "prefetch"),
    "batch_size": ("size",),
    "buffer_size": ("window", "count"),
    "collate_fn": ("function",),
    "drop_remainder": ("drop_last",),
    "fn": ("function", "predicate"),
    "func": ("function", "predicate"),
    "handler": ("on_error",),
    "num_parallel_calls": ("concurrency", "workers"),
    "num_workers": ("workers",),
    "on_bad_rows": ("on_error",),
    "prefetch_factor": ("prefetch",),
    "world": ("world_size",),
}
_ADVICE = {  # where a function has none of these names
    "batch_size": "`.batch(n)` in the chain groups rows",
    "batched": "`.map_batches(function, n)` calls it with up to n rows at a time",
    "buffer_size": "`.shuffle(window=n)` and `.prefetch(n)` are operators of the chain",
    "collate_fn": "`.collate(function)` in the chain makes batches",
    "drop_last": "`.batch(n, drop_last=True)` in the chain drops it",
    "drop_remainder": "`.batch(n, drop_last=True)` in the chain drops it",
    "handler": '`.on_error("skip")` in the chain leaves out rows that fail',
    "num_parallel_calls": "`Loader(pipe, workers=n)` runs the chain in several processes",
    "num_workers": "`Loader(pipe, workers=n)` runs the chain in several processes",
    "on_bad_rows": '`read_csv(..., on_error="skip")` leaves out rows that cannot be parsed',
    "pin_memory": "`Loader(pipe, pin_memory=True)` gives tensors in pinned memory",
    "prefetch_factor": "`MultiProcess(workers, prefetch=n)` keeps elements ready",
    "shuffle": "`.shuffle()` is an operator of the chain",
}


def explains_unknown_arguments(function: F) -> F:
    """`function`, whose error of an unknown argument says which one was meant. No other call is changed."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # A call that does not fit the signature fails here, and not in a frame of the function.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            message = _message(function, kwargs)
            if message is None:
                raise
            raise ArgumentTypeError(with_call_site(message)) from None

    return call  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def methods_explain_unknown_arguments(cls: C) -> C:
    """A decorator of a class: all its public functions, and its construction, explain unknown arguments."""
    for name, value in list(vars(cls).items()):
        if inspect.isfunction(value) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, explains_unknown_arguments(value))
    return cls


def _message(function: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "pipe")]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = next((name for name in arguments if name not in names), None)
    if unknown is None:
        return None
    called = getattr(function, "__qualname__", "the function").removesuffix(".__init__").rpartition(".")[2]
    message = f"`{called}` has no argument `{unknown}`; "
    meant = next((name for name in _MEANT.get(unknown, ()) if name in names), None)
    if meant is None and unknown in _ADVICE:
        return message + _ADVICE[unknown]
    meant = meant or next(iter(difflib.get_close_matches(unknown, names, 1)), None)
    if meant is not None:
        return f"{message}did you mean `{meant}`?"
    return message + (f"it takes {', '.join(f'`{name}`' for name in names)}" if names else "it takes none by name")
