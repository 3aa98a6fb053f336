"""Operators and values as code, for `repr`, `explain()` and error messages."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import ClassVar, Protocol, cast

from ..errors import redacted
from .checks import is_plain, partial_parts, value_text

PACKAGE = __name__.partition(".")[0]


class Link(Protocol):
    """The part of an operator that its code needs: a dataclass with a kind."""

    kind: ClassVar[str]

    def call(self) -> str | None: ...


def call_code(op: Link) -> str:
    """`op` as a call of its `kind`: `batch(256)`."""
    return f"{op.kind}({_arguments(op)})"


def constructor_code(value: object) -> str:
    """A dataclass, such as an operator or a reading service, as a call of its class: `Batch(256)`."""
    return f"{type(value).__name__}({_arguments(value)})"


def step_code(op: Link, others: Sequence[str] = (), *, source: bool) -> str:
    """The code that adds `op` to a chain: `.batch(256)`, `.then(EverySecond())`, `from_sequence([1])`.

    Each operator of this package has a method or a function of its `kind`. Other packages' operators have none, even if
    their `kind` is that of a method: `then` and `Pipe.source` add them.

    Args:
        others: the code of the further inputs.
        source: whether `op` has no input.
    """
    if type(op).__module__.partition(".")[0] == PACKAGE:
        call = op.call() or call_code(op)
        if others:
            name, rest = call.split("(", 1)
            call = f"{name}({', '.join(others)}{rest if rest.startswith(')') else ', ' + rest}"
    else:
        call = f"{'Pipe.source' if source else 'then'}({', '.join([constructor_code(op), *others])})"
    return call if source else f".{call}"


def _arguments(value: object) -> str:
    """The arguments of a dataclass: by position if they have no default, else by name if they differ from it."""
    arguments: list[str] = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        if not field.init or not field.repr:
            continue
        argument = getattr(value, field.name)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if default is dataclasses.MISSING and not field.kw_only:
            arguments.append(value_code(argument))
        elif _differs(argument, default):
            arguments.append(f"{field.name}={value_code(argument)}")
    return ", ".join(arguments)


def _differs(value: object, default: object) -> bool:
    if value is default:
        return False
    return not (is_plain(value) and is_plain(default) and value_text(value) == value_text(default))


def value_code(value: object) -> str:
    """`value` as code if that is short, else a description of it: `<list of 500000>`."""
    if callable(value):
        return _function_name(value)
    if isinstance(value, Mapping):
        if len(value) > 8:
            return f"<dict of {len(value)}>"
        return "{" + ", ".join(f"{key!r}: {value_code(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return redacted(repr(value))
    if dataclasses.is_dataclass(value) and type(value).__module__.partition(".")[0] == PACKAGE:
        return constructor_code(value)  # a policy, or another group of arguments
    if value is None or isinstance(value, (bool, int, float, bytes, range)):
        return repr(value)
    shape = getattr(value, "shape", None) if hasattr(type(value), "shape") else None
    if isinstance(shape, tuple):
        return f"<{type(value).__name__} {' x '.join(map(str, shape))}>"
    if isinstance(value, (list, tuple)) and len(value) <= 8 and all(isinstance(v, (str, int)) for v in value):
        return redacted(repr(value))
    try:
        return f"<{type(value).__name__} of {len(value)}>"  # type: ignore[arg-type]
    except TypeError:
        return f"<{type(value).__name__}>"


def _function_name(value: object) -> str:
    """The qualified name of a function, or of the class of another object, without a call of its code."""
    if issubclass(type(value), functools.partial):
        return _function_name(partial_parts(value)[0])
    if type(value) in (FunctionType, BuiltinFunctionType, MethodType):
        return cast("FunctionType", value).__qualname__
    cls = cast("type", value) if issubclass(type(value), type) else type(value)
    return cast("str", type.__getattribute__(cls, "__qualname__"))
