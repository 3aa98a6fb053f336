"""Checks of arguments, all in one voice: `` `size` must be >= 1 but got: 0 ``."""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable
from typing import cast

from ..errors import ArgumentError, ArgumentTypeError, with_call_site
from .plain_values import class_attribute

_DECIMAL = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS = _DECIMAL | {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def check_int(name: str, value: object, *, least: int) -> int:
    """`value` as an int that is at least `least`; NumPy integers are accepted, bools are not."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(
            with_call_site(f"`{name}` must be an int but got: {value!r} of type {type(value).__name__}")
        ) from None
    if number < least:
        raise ArgumentError(with_call_site(f"`{name}` must be >= {least} but got: {number}"))
    return number


def check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ArgumentTypeError(with_call_site(f"`{name}` must be True or False but got: {value!r}"))


def check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(with_call_site(f"`{name}` must be a number of seconds but got: {value!r}"))
    if not value > 0:
        raise ArgumentError(with_call_site(f"`{name}` must be > 0 but got: {value!r}"))


def check_callable(name: str, value: object, *, coroutines: bool = False) -> None:
    if not isinstance(value, Callable):  # type: ignore[arg-type]
        raise ArgumentTypeError(with_call_site(f"`{name}` must be callable but got: {value!r}"))
    if not coroutines and is_coroutine_function(value):
        raise ArgumentTypeError(
            with_call_site(
                f"`{name}` must be a plain function but is a coroutine function, and only `map` awaits those; put "
                "`.map(function, concurrency=n)` before"
            )
        )


def is_coroutine_function(value: object) -> bool:
    """Whether a function, a `partial` of one, or a callable object is declared with `async def`."""
    while isinstance(value, functools.partial):
        value = cast("functools.partial[object]", value).func
    return inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(class_attribute(type(value), "__call__"))


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        listed = ", ".join(map(repr, choices))
        raise ArgumentError(with_call_site(f"`{name}` must be one of {listed} but got: {value!r}"))


def check_bytes(name: str, value: object) -> int:
    """A number of bytes: an int, or a string such as "1GiB" or "500 MB"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise ArgumentError(with_call_site(f'`{name}` must be a size such as "1GiB" but got: {value!r}'))
        return int(float(match[1]) * unit)
    return check_int(name, value, least=1)
