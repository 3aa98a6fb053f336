"""Errors of calls whose arguments do not fit the signature: they name the argument that was meant, or is missing."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from inspect import Parameter
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


def explains_wrong_arguments(function: F) -> F:
    """`function`, whose errors of unknown, missing and surplus arguments are ours. No other call is changed."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # A call that does not fit the signature fails here, and not in a frame of the function.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            message = _message(function, args, kwargs)
            if message is None:
                raise
            raise ArgumentTypeError(with_call_site(message)) from None

    return call  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def methods_explain_wrong_arguments(cls: C) -> C:
    """A decorator of a class: all its public functions, and its construction, explain wrong arguments."""
    for name, value in list(vars(cls).items()):
        if inspect.isfunction(value) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, explains_wrong_arguments(value))
    return cls


def _message(function: Callable[..., Any], values: tuple[Any, ...], by_name: dict[str, Any]) -> str | None:
    """What is wrong with a call; None if Python's own error has to say it."""
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and (parameters[0].name == "self" or parameters[0].kind is Parameter.POSITIONAL_ONLY):
        parameters, values = parameters[1:], values[1:]  # a method's object is no argument to its user
    named = [p for p in parameters if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
    called = getattr(function, "__qualname__", "the function").removesuffix(".__init__").rpartition(".")[2]
    unknown = next((name for name in by_name if all(name != p.name for p in named)), None)
    if unknown is not None:
        return f"`{called}` has no argument `{unknown}`; {_advice(unknown, [p.name for p in named])}"
    positional = [p for p in named if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if len(values) > len(positional) and all(p.kind is not Parameter.VAR_POSITIONAL for p in parameters):
        named_only = next((p for p in named if p.kind is Parameter.KEYWORD_ONLY and p.name not in by_name), None)
        taken = f"only {_listed(positional)}" if positional else "nothing"
        repair = f"; name the others, such as {_listed([named_only])}" if named_only else ""
        return f"`{called}` takes {taken} by position but got {len(values)}{repair}"
    missing = [p for p in named[len(values) :] if p.default is Parameter.empty and p.name not in by_name]
    return f"`{called}` needs {_listed(missing)}" if missing else None


def _listed(parameters: list[Parameter]) -> str:
    names = [f"`{p.name}=`" if p.kind is Parameter.KEYWORD_ONLY else f"`{p.name}`" for p in parameters]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def _advice(unknown: str, names: list[str]) -> str:
    """What to write in place of an argument that is not among `names`."""
    meant = next((name for name in _MEANT.get(unknown, ()) if name in names), None)
    if meant is None and unknown in _ADVICE:
        return _ADVICE[unknown]
    meant = meant or next(iter(difflib.get_close_matches(unknown, names, 1)), None)
    if meant is not None:
        return f"did you mean `{meant}`?"
    return f"it takes {', '.join(f'`{name}`' for name in names)}" if names else "it takes none by name"
