"""The part of a value that cannot be pickled, and the steps that lead to it."""

from __future__ import annotations

import builtins
import functools
import reprlib
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any, TypeAlias

from ...plan.function_values import closure, defaults, global_names

PickleError: TypeAlias = "Callable[[object], Exception | None]"
"""Tries to pickle a value alone; returns the error, if there is one."""

_Part: TypeAlias = tuple[str, object]
_MAX_STEPS = 16


def find_culprit(value: object, error: Exception, pickle_error: PickleError) -> tuple[list[str], object, Exception]:
    """The steps from `value` to the innermost part that cannot be pickled, that part, and its error."""
    steps: list[str] = []
    seen = {id(value)}
    while len(steps) < _MAX_STEPS:
        for name, part in _narrow(_parts(value), pickle_error):
            part_error = None if id(part) in seen else pickle_error(part)
            if part_error is not None:
                steps.append(name)
                value, error = part, part_error
                seen.add(id(part))
                break
        else:
            break
    return steps, value, error


def _narrow(parts: list[_Part], pickle_error: PickleError) -> list[_Part]:
    """At most 64 of `parts`, with one that fails: a list may have millions, too many to try each."""
    while len(parts) > 64:
        half = parts[: len(parts) // 2]
        parts = half if pickle_error([value for _, value in half]) is not None else parts[len(half) :]
    return parts


def _parts(value: Any) -> list[_Part]:
    """What pickle would look into, each part with its name."""
    if isinstance(value, dict):
        names = {key: reprlib.repr(key) for key in value}
        items = [(f"[{names[key]}]", item) for key, item in value.items()]
        return items + [(f"<key {names[key]}>", key) for key in value]
    if isinstance(value, tuple) and (names_of_fields := getattr(value, "_fields", None)) is not None:
        return list(zip(names_of_fields, value, strict=True))
    if isinstance(value, (list, tuple)) and type(value).__reduce__ is object.__reduce__:
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    return list(_named_parts(value))


def _named_parts(value: Any) -> Iterator[_Part]:
    if isinstance(value, FunctionType):
        yield from closure(value).items()
        yield from ((name, value.__globals__[name]) for name in global_names(value) if name in value.__globals__)
        yield from (defaults(value) | vars(value)).items()
    elif isinstance(value, MethodType):
        yield "self", value.__self__
        yield value.__name__, value.__func__
    elif isinstance(value, functools.partial):
        yield getattr(value.func, "__name__", "func"), value.func
        yield from ((f"args[{i}]", argument) for i, argument in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, (set, frozenset)):
        yield from (("<item>", item) for item in value)
    elif isinstance(value, type):
        yield from ((base.__name__, base) for base in value.__bases__)
        yield from ((n, getattr(v, "__func__", v)) for n, v in vars(value).items() if not n.startswith("__"))
        yield from ((n, v.fget) for n, v in vars(value).items() if isinstance(v, property))
    if not isinstance(value, (type, FunctionType)):
        yield from _attributes(value)


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """The attributes of an object that pickle looks into: those of C are left to its class."""
    yield from getattr(value, "__dict__", {}).items()
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def path_of(steps: Sequence[str]) -> str:
    return "".join(step if step.startswith("[") or not i else f".{step}" for i, step in enumerate(steps))


def named_type(value: object) -> str:
    """The type of `value` with an article: "a _thread.lock"."""
    cls = type(value)
    name = cls.__qualname__ if cls.__module__ == builtins.__name__ else f"{cls.__module__}.{cls.__qualname__}"
    return f"{'an' if name.lstrip('_')[:1].lower() in tuple('aeiou') else 'a'} {name}"
