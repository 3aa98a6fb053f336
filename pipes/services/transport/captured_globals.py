"""`CapturedGlobals`: the globals that functions take with them when a graph travels to worker processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import FunctionType
from typing import NamedTuple

from ...core.graph import Node, walk
from ...core.plain_values import digest, is_plain
from ...plan.function_values import FunctionValues, code_digest, global_reads
from .importable import Importable

MAX_READS = 1000
"""So many globals of a graph are compared."""


class _Read(NamedTuple):
    """A function reads a global.

    Attributes:
        namespace: the globals of the module.
        captured: a digest of the value that travelled.
    """

    function: str
    name: str
    namespace: dict[str, object]
    captured: str | None


class CapturedGlobals:
    """The globals that the functions of a graph read, by value, when the graph travelled.

    These count: plain values, and the code of functions, which are followed in turn. A function whose module workers
    import captures nothing. What a function assigns itself is a state of the run. No code of a user is called.
    """

    def __init__(self, root: Node) -> None:
        self._reads: list[_Read] = []
        importable = Importable()
        seen: set[tuple[int, str]] = set()  # by namespace and name
        visited: set[int] = set()
        functions = [function for node in walk(root) for function in _functions(node)]
        while functions and len(self._reads) < MAX_READS:
            function = functions.pop()
            is_by_reference = importable(function.__module__) and "<" not in function.__qualname__
            if id(function) in visited or is_by_reference:
                continue
            visited.add(id(function))
            namespace = function.__globals__
            for name in sorted(global_reads(function)):
                if name in namespace and (id(namespace), name) not in seen:
                    seen.add((id(namespace), name))
                    captured = _digest(namespace[name])
                    if captured is not None:
                        self._reads.append(_Read(function.__name__, name, namespace, captured))
                    functions += FunctionValues(namespace[name]).functions

    def changes(self) -> list[tuple[str, str]]:
        """The globals that have changed since then, each once: its name and that of a function that reads it."""
        changed = [read for read in self._reads if _digest(read.namespace.get(read.name)) != read.captured]
        if changed:
            self._reads = [read for read in self._reads if read not in changed]
        return [(read.name, read.function) for read in changed]


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
