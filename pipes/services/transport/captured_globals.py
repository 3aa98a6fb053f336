"""`CapturedGlobals`: the globals that functions take with them when a graph travels to worker processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import FunctionType
from typing import NamedTuple, cast

from ...core.graph import Node, walk
from ...core.plain_values import attributes, class_attribute, digest, is_plain
from ...errors import WorkerWarning, warn
from ...plan.function_values import FunctionValues, code_digest, global_reads
from .importable import Importable

MAX_READS = 1000
"""So many globals of a graph are compared."""
_MISSING = object()


class _Read(NamedTuple):
    """A function reads a global.

    Attributes:
        path: the name of the global, and the attributes that lead from there to the value.
        namespace: the globals of the module.
        captured: a digest of the value that travelled.
    """

    function: str
    path: str
    namespace: dict[str, object]
    captured: str


class CapturedGlobals:
    """The globals that the functions of a graph read, by value, when the graph travelled.

    These count: plain values, also as attributes of modules, classes and objects (`config.depth`), and the code of
    functions, which are followed in turn. A function whose module workers import captures nothing. What a function
    assigns itself is a state of the run. No code of a user is called.
    """

    def __init__(self, root: Node) -> None:
        self._reads: list[_Read] = []
        importable = Importable()
        seen: set[tuple[int, str]] = set()  # by namespace and path
        visited: set[int] = set()
        functions = [function for node in walk(root) for function in _functions(node)]
        while functions and len(self._reads) < MAX_READS:
            function = functions.pop()
            is_by_reference = importable(function.__module__) and "<" not in function.__qualname__
            if id(function) in visited or is_by_reference:
                continue
            visited.add(id(function))
            namespace = function.__globals__
            for path in sorted(global_reads(function)):
                path, value = _value(namespace, path)
                if (id(namespace), path) not in seen:
                    seen.add((id(namespace), path))
                    captured = _digest(value)
                    if captured is not None:
                        self._reads.append(_Read(function.__name__, path, namespace, captured))
                    functions += FunctionValues(value).functions

    def changes(self) -> list[tuple[str, str]]:
        """The globals that have changed since then, each once: its name and that of a function that reads it."""
        changed = [read for read in self._reads if _digest(_value(read.namespace, read.path)[1]) != read.captured]
        if changed:
            self._reads = [read for read in self._reads if read not in changed]
        return [(read.path, read.function) for read in changed]

    def warn_of_changes(self) -> None:
        """Warns of each global that has changed since then, once."""
        for name, function in self.changes():
            warn(
                f"the global `{name}`, which `{function}` reads, has changed since the workers started, and they do "
                "not see that; make a new loader, or give the value to the function through its rows",
                WorkerWarning,
            )


def _value(namespace: dict[str, object], path: str) -> tuple[str, object]:
    """What a global, or an attribute of it, is now, and the part of the path that leads there.

    A path ends at a plain value or a function. `_MISSING` stands for what is not there.
    """
    name, *names = path.split(".")
    value = namespace.get(name, _MISSING)
    for attribute in names:
        if is_plain(value) or isinstance(value, FunctionType):
            break
        if issubclass(type(value), type):
            value = class_attribute(cast("type", value), attribute, _MISSING)
        else:
            shared = class_attribute(type(value), attribute, _MISSING)
            value = attributes(value).get(attribute, shared)
        name += f".{attribute}"
    return name, value


def _functions(node: Node) -> Iterator[FunctionType]:
    """The functions among the arguments of an operator, and those that they hold."""
    for field in dataclasses.fields(node.op):  # type: ignore[arg-type]
        if field.init and field.repr:
            argument = getattr(node.op, field.name)
            if callable(argument) or not is_plain(argument):
                yield from FunctionValues(argument, reads=not node.inputs).functions


def _digest(value: object) -> str | None:
    """A digest of a plain value or a function's code; None for anything else."""
    if isinstance(value, FunctionType):
        return code_digest(value.__code__)
    return digest(value) if is_plain(value) else None
