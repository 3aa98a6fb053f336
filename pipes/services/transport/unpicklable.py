"""What of a pipe cannot be sent to a worker: the operator, its line, and the way to the culprit."""

from __future__ import annotations

import builtins
import dataclasses
import dis
import functools
import io
import socket
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, GeneratorType, MethodType
from typing import Any, TypeAlias

from ...core.code import value_code
from ...core.graph import Node, node_code, walk
from ...core.operator import Operator
from ...errors import ArgumentTypeError, CallSite, with_call_site

Failure = Callable[[object], "Exception | None"]
"""Pickles a value alone and says why it cannot be."""

_Part: TypeAlias = tuple[str, object]
_DEEPEST = 16


def unpicklable(content: object, root: Node, error: Exception, failure: Failure) -> ArgumentTypeError:
    """The error for `content`, which could not be pickled.

    Args:
        content: the graph and what was to travel with it.
        root: the graph.
        error: of pickle.
        failure: asked of the parts, to find the one.
    """
    for node in walk(root):
        found = failure(node.op)
        if found is not None:
            said = _operator(node.op, found, failure)
            return _error(node_code(node), said, node.call_site)
    for part in content if isinstance(content, tuple) else ():
        found = None if part is root else failure(part)
        if found is not None:
            return _error("init", _argument("init", part, found, failure), None)
    return ArgumentTypeError(with_call_site(f"the pipe cannot be sent to a worker process: {_reason(error)}"))


def _error(what: str, said: str, where: CallSite | None) -> ArgumentTypeError:
    return ArgumentTypeError(with_call_site(f"`{what}` cannot be sent to a worker process: {said}", where))


def _operator(op: Operator, error: Exception, failure: Failure) -> str:
    if type(op).__reduce__ is object.__reduce__:
        for field in dataclasses.fields(op):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            value = getattr(op, field.name)
            found = failure(value)
            if found is not None:
                return _argument(field.name, value, found, failure)
    return _reason(error)


def _argument(name: str, value: object, error: Exception, failure: Failure) -> str:
    """What is wrong with an argument, and its repair."""
    if _too_deep(error):
        return f"`{name}` is nested too deeply to be pickled; make it flat, or make it inside a function"
    steps, culprit, error = _way(value, error, failure)
    kind = _kind(culprit)
    if not callable(value):
        path = _path([name, *steps])
        return f"`{path}` is {kind}, and that cannot be pickled{_own_words(error)}; {_repair(culprit, 'a function')}"
    if not steps:
        return f"{kind} cannot be pickled{_own_words(error)}; give a plain function, or an object of a class of yours"
    path = _path(steps if isinstance(value, (FunctionType, MethodType, functools.partial, type)) else ["self", *steps])
    repair = _repair(culprit, "the function")
    return f"`{value_code(value)}` uses `{path}`, and {kind} cannot be pickled{_own_words(error)}; {repair}"


def _repair(culprit: object, where: str) -> str:
    if isinstance(culprit, GeneratorType):
        return f"make it inside {where}"
    if isinstance(culprit, io.IOBase):
        return f"open it inside {where}"
    if isinstance(culprit, socket.socket) or type(culprit).__name__.endswith(("Connection", "Cursor", "Client")):
        return f"connect inside {where}"
    return f"make it inside {where}, or keep it in a module"


def _way(value: object, error: Exception, failure: Failure) -> tuple[list[str], object, Exception]:
    """The names that lead from `value` to what in it cannot be pickled, that, and why."""
    steps: list[str] = []
    seen = {id(value)}
    while len(steps) < _DEEPEST:
        for name, part in _narrowed(_parts(value), failure):
            found = None if id(part) in seen else failure(part)
            if found is not None:
                steps.append(name)
                value, error = part, found
                seen.add(id(part))
                break
        else:
            break
    return steps, value, error


def _narrowed(parts: list[_Part], failure: Failure) -> list[_Part]:
    """Some of `parts`, one of which fails: a list may have millions, too many to ask for each."""
    while len(parts) > 64:
        half = parts[: len(parts) // 2]
        parts = half if failure([value for _, value in half]) is not None else parts[len(half) :]
    return parts


def _parts(value: Any) -> list[_Part]:
    """What pickle would look into, by name."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in value.items()] + [(f"<key {key!r}>", key) for key in value]
    if isinstance(value, (list, tuple)) and type(value).__reduce__ is object.__reduce__:
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    return list(_inside(value))


def _inside(value: Any) -> Iterator[_Part]:
    if isinstance(value, FunctionType):
        yield from zip(value.__code__.co_freevars, map(_content, value.__closure__ or ()), strict=True)
        yield from ((name, value.__globals__[name]) for name in _globals(value.__code__) if name in value.__globals__)
        names = value.__code__.co_varnames[: value.__code__.co_argcount]
        defaults = value.__defaults__ or ()
        yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
        yield from (value.__kwdefaults__ or {}).items()
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
    if not isinstance(value, type):
        yield from _attributes(value)


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None


def _globals(code: CodeType) -> Iterator[str]:
    """The names that a function looks up in its module, those of functions inside it as well."""
    yield from dict.fromkeys(step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _path(steps: Sequence[str]) -> str:
    return "".join(step if step.startswith("[") or not i else f".{step}" for i, step in enumerate(steps))


def _kind(value: object) -> str:
    """Its type with an article: "a _thread.lock"."""
    cls = type(value)
    name = cls.__qualname__ if cls.__module__ == builtins.__name__ else f"{cls.__module__}.{cls.__qualname__}"
    return f"{'an' if name.lstrip('_')[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _too_deep(error: BaseException) -> bool:
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def _own_words(error: Exception) -> str:
    """What the error says, where it says more than that something cannot be pickled."""
    return "" if str(error).lower().startswith(("cannot pickle", "can't pickle")) else f" ({_reason(error)})"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
