"""Names what in a pipe cannot be sent to a worker: the operator, its line, and the part of its arguments."""

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

PickleError: TypeAlias = "Callable[[object], Exception | None]"
"""Tries to pickle a value alone; returns the error, if there is one."""

_Part: TypeAlias = tuple[str, object]
_MAX_STEPS = 16


def unpicklable_error(content: object, root: Node, error: Exception, pickle_error: PickleError) -> ArgumentTypeError:
    """The error for `content`, which could not be pickled.

    Args:
        content: the graph, and what should travel with it.
        root: the graph.
        error: the error of pickling all of it.
        pickle_error: called for the parts, to find the culprit.
    """
    for node in walk(root):
        node_error = pickle_error(node.op)
        if node_error is not None:
            problem = _operator_problem(node.op, node_error, pickle_error)
            return _error(node_code(node), problem, node.call_site)
    for part in content if isinstance(content, tuple) else ():
        part_error = None if part is root else pickle_error(part)
        if part_error is not None:
            return _error("init", _argument_problem("init", part, part_error, pickle_error), None)
    return ArgumentTypeError(with_call_site(f"the pipe cannot be sent to a worker process: {_error_text(error)}"))


def _error(culprit: str, problem: str, call_site: CallSite | None) -> ArgumentTypeError:
    return ArgumentTypeError(with_call_site(f"`{culprit}` cannot be sent to a worker process: {problem}", call_site))


def _operator_problem(op: Operator, error: Exception, pickle_error: PickleError) -> str:
    if type(op).__reduce__ is object.__reduce__:
        for field in dataclasses.fields(op):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            value = getattr(op, field.name)
            field_error = pickle_error(value)
            if field_error is not None:
                return _argument_problem(field.name, value, field_error, pickle_error)
    return _error_text(error)


def _argument_problem(name: str, value: object, error: Exception, pickle_error: PickleError) -> str:
    """What is wrong with an argument, and its repair."""
    if _too_deep(error):
        return f"`{name}` is nested too deeply to be pickled; make it flat, or make it inside a function"
    steps, culprit, error = _find_culprit(value, error, pickle_error)
    type_name = _type_name(culprit)
    if not callable(value):
        path = _path([name, *steps])
        return f"`{path}` is {type_name}, and that cannot be pickled{_detail(error)}; {_repair(culprit, 'a function')}"
    if not steps:
        return f"{type_name} cannot be pickled{_detail(error)}; give a plain function, or an object of a class of yours"
    path = _path(steps if isinstance(value, (FunctionType, MethodType, functools.partial, type)) else ["self", *steps])
    repair = _repair(culprit, "the function")
    return f"`{value_code(value)}` uses `{path}`, and {type_name} cannot be pickled{_detail(error)}; {repair}"


def _repair(culprit: object, place: str) -> str:
    if isinstance(culprit, GeneratorType):
        return f"make it inside {place}"
    if isinstance(culprit, io.IOBase):
        return f"open it inside {place}"
    if isinstance(culprit, socket.socket) or type(culprit).__name__.endswith(("Connection", "Cursor", "Client")):
        return f"connect inside {place}"
    return f"make it inside {place}, or keep it in a module"


def _find_culprit(value: object, error: Exception, pickle_error: PickleError) -> tuple[list[str], object, Exception]:
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
        return [(f"[{key!r}]", item) for key, item in value.items()] + [(f"<key {key!r}>", key) for key in value]
    if isinstance(value, (list, tuple)) and type(value).__reduce__ is object.__reduce__:
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    return list(_named_parts(value))


def _named_parts(value: Any) -> Iterator[_Part]:
    if isinstance(value, FunctionType):
        yield from zip(value.__code__.co_freevars, map(_cell_content, value.__closure__ or ()), strict=True)
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


def _cell_content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _globals(code: CodeType) -> Iterator[str]:
    """The names that a function, or a function inside it, looks up in its module."""
    yield from dict.fromkeys(step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _path(steps: Sequence[str]) -> str:
    return "".join(step if step.startswith("[") or not i else f".{step}" for i, step in enumerate(steps))


def _type_name(value: object) -> str:
    """The type of `value` with an article: "a _thread.lock"."""
    cls = type(value)
    name = cls.__qualname__ if cls.__module__ == builtins.__name__ else f"{cls.__module__}.{cls.__qualname__}"
    return f"{'an' if name.lstrip('_')[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _too_deep(error: BaseException) -> bool:
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def _detail(error: Exception) -> str:
    """What the error says beyond that something cannot be pickled."""
    return "" if str(error).lower().startswith(("cannot pickle", "can't pickle")) else f" ({_error_text(error)})"


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
