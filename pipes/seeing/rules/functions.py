"""Rules that look at the user's functions: their bytecode, and what they take along. None of them runs."""

from __future__ import annotations

import dis
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.code import value_code
from ...core.findings import Finding
from ...core.graph import Node, node_code, walk
from ...core.operator import Operator, Trait
from ...core.process import bytes_text
from ...plan.function_values import FunctionValues, closure, global_names, global_reads, short_name
from ...plan.plan import worker_graph
from ...services.transport.graph_file import pickled_size, sending_error
from .checked_pipe import CheckedPipe

MAX_FUNCTIONS = 200
"""The most functions of one operator that are followed."""
MAX_TAKEN_BYTES = 2**24
"""The bytes of Python objects that an operator may take along to each worker."""

_TORCH_DRAWS = frozenset(
    (
        *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm"),
        *("normal", "bernoulli", "poisson", "multinomial"),
    )
)
_NO_STEPS = ("PUSH_NULL", "PRECALL", "CACHE", "COPY_FREE_VARS", "EXTENDED_ARG")
_GENERATORS = ("default_rng", "RandomState", "Random")
"""They make a generator from a seed, or from nothing."""


def unkeyed_draws(view: CheckedPipe) -> Iterator[Finding]:
    """Functions that draw from generators that a loader does not key."""
    for node in view.nodes:
        draw = _draw_of(node)
        if draw is None:
            continue
        advice = (
            '`rng="global"` keys the generators of Python, NumPy and torch for each row'
            if draw.is_global
            else "`rng=True` calls the function with a keyed generator as its last argument"
        )
        text = (
            f"`{node_code(node).lstrip('.')}` draws with `{draw.name}`, which no loader keys: rows differ from run to "
            f"run, and after a resume; {advice}"
        )
        rng: Literal[True, "global"] = "global" if draw.is_global else True
        yield Finding("unkeyed-draws", "warning", node.call_site, text, _keyed_code(node, rng))


def early_draws(view: CheckedPipe) -> Iterator[Finding]:
    """Draws before an operator that keeps the rows of the first epoch for all."""
    for node in view.nodes:
        if node.op.kind != "cache" and node.op.trait is not Trait.EACH_PROCESS:
            continue
        for below in walk(node.inputs[0]):
            keyed = getattr(below.op, "rng", False) is not False
            if (not keyed or node.op.kind == "cache") and _draw_of(below) is None:
                continue  # `cache` asks for `freeze=True` before it keeps keyed draws
            keep = node_code(node)
            text = (
                f"`{keep.lstrip('.')}` keeps what `{node_code(below).lstrip('.')}` has drawn, so all epochs have the "
                "same draws; put it before the draws"
            )
            yield Finding("cache-order", "warning", node.call_site, text, keep + _keyed_code(below, "global"))


def global_state(view: CheckedPipe) -> Iterator[Finding]:
    """Functions that change variables outside of them."""
    for node in view.nodes:
        for function in _functions_of(node.op):
            name = _changed_name(function)
            if name is None:
                continue
            text = (
                f"`{node_code(node).lstrip('.')}` changes `{name}`, a variable outside of it: each worker has its own, "
                "and a resume begins with none of them; do it in the loop, which sees each row once"
            )
            repair = f"for row in loader:  # of the pipe without this call\n    {_name_of(function)}(row)"
            yield Finding("global-state", "warning", node.call_site, text, repair)
            break


def large_captures(view: CheckedPipe) -> Iterator[Finding]:
    """Operators that take many Python objects along to each worker; arrays are shared."""
    for node in view.nodes if view.workers else ():
        size = pickled_size(node.op, 4 * MAX_TAKEN_BYTES)
        if size is None or size <= MAX_TAKEN_BYTES:
            continue
        least = "more than " if size >= 4 * MAX_TAKEN_BYTES else ""
        text = (
            f"`{node_code(node).lstrip('.')}` takes {least}{bytes_text(size)} of Python objects along, and each of "
            f"{view.workers} workers makes its own copy when it starts; keep them in a NumPy array or an Arrow table, "
            "which the workers share, or use threads"
        )
        yield Finding("large-captures", "warning", node.call_site, text, f"fp.Loader(pipe, fp.Threads({view.workers}))")


def unpicklable(view: CheckedPipe) -> Iterator[Finding]:
    """What cannot go to worker processes."""
    error = sending_error(worker_graph(view.root)) if view.workers else None
    if error is not None:
        text, _, _ = str(error).partition("\n  at ")
        culprit = next((node for node in view.nodes if sending_error(Node(node.op, node.inputs)) is not None), None)
        where = None if culprit is None else culprit.call_site
        yield Finding("unpicklable", "error", where, text, f"fp.Loader(pipe, fp.Threads({view.workers}))")


# Draws


class Draw(NamedTuple):
    """A draw without a key.

    Attributes:
        name: of what draws, as the code has it.
        is_global: whether it is a generator of a module, which `rng="global"` keys.
    """

    name: str
    is_global: bool


def _draw_of(node: Node) -> Draw | None:
    if getattr(node.op, "rng", None) is not False:
        return None
    return next((draw for function in _functions_of(node.op) if (draw := draw_in(function)) is not None), None)


def draw_in(function: FunctionType) -> Draw | None:
    """The first draw without a key in the code of a function."""
    if "generator" in _keywords(function):
        return None  # torch takes a generator by this name
    for path in sorted(global_reads(function)):
        value, names = _value_of(path, function)
        if _draws(value) and not _gets_a_seed(function, names[-1]):
            return Draw(path, names[-1] not in _GENERATORS)
    outside = {name: function.__globals__.get(name) for name in global_names(function)} | closure(function)
    return next((Draw(name, False) for name, value in outside.items() if isinstance(value, _generators())), None)


def _generators() -> tuple[type, ...]:
    """The types of generators."""
    torch: Any = sys.modules.get("torch")
    kinds = (random.Random, np.random.Generator, np.random.RandomState)
    return kinds if torch is None else (*kinds, torch.Generator)


def _draws(value: object) -> bool:
    """Whether a call of this value draws, or makes a generator."""
    owner = getattr(value, "__self__", None)
    if owner is not None and owner is getattr(random, "_inst", None):
        return True
    if value is random.Random:
        return True
    if value is np.random.default_rng or value is np.random.RandomState:
        return True
    if owner is not None and owner is getattr(np.random.mtrand, "_rand", None):
        return getattr(value, "__name__", "") not in ("seed", "get_state", "set_state")
    torch: Any = sys.modules.get("torch")
    name = getattr(value, "__name__", "")
    return torch is not None and name in _TORCH_DRAWS and getattr(torch, name, None) is value


def _gets_a_seed(function: FunctionType, name: str) -> bool:
    """Whether each call of `name` that makes a generator has an argument: the seed."""
    if name not in _GENERATORS:
        return False
    for code in _codes(function):
        steps = [step for step in dis.get_instructions(code) if step.opname not in _NO_STEPS]
        for step, following in pairwise(steps):
            if step.argval == name and following.opname == "CALL" and not following.arg:
                return False
    return True


def _codes(function: FunctionType) -> Iterator[Any]:
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        yield code
        codes += [constant for constant in code.co_consts if isinstance(constant, type(code))]


def _keywords(function: FunctionType) -> set[str]:
    """The names of arguments in calls."""
    found: set[str] = set()
    for code in _codes(function):
        for constant in code.co_consts:
            if isinstance(constant, tuple):
                found.update(item for item in constant if isinstance(item, str))
    return found


def _value_of(path: str, function: FunctionType) -> tuple[object, list[str]]:
    """The value of a path of global names such as `np.random.rand`; None if it is no attribute of modules."""
    names = path.split(".")
    value: object = function.__globals__.get(names[0])
    used = names[:1]
    for name in names[1:]:
        if not isinstance(value, ModuleType):
            break
        value = vars(value).get(name)
        used.append(name)
    return value, used


def _keyed_code(node: Node, rng: Literal[True, "global"]) -> str:
    """The call of an operator with keyed draws."""
    op: Any = node.op
    if getattr(op, "rng", None) is not False:
        return code_to_run(node)
    return code_to_run(Node(replace(op, rng=rng), node.inputs)).replace("rng='global'", 'rng="global"')


def code_to_run(node: Node) -> str:
    """The call of an operator as code that runs if its function is there by its short name; a lambda is `function`."""
    function = getattr(node.op, "function", None)
    code = node_code(node)
    return code.replace(value_code(function), _name_of(function), 1) if callable(function) else code


def _name_of(function: object) -> str:
    name = short_name(function)
    return name if name.isidentifier() else "function"


# Functions


def _functions_of(op: Operator) -> list[FunctionType]:
    """The functions that an operator calls, and those of the same package that these call."""
    root = getattr(op, "function", None)
    if root is None or not callable(root) or type(op).__module__.partition(".")[0] != "feedpipe":
        return []
    functions: dict[int, FunctionType] = {}
    waiting: list[object] = [root]
    while waiting and len(functions) < MAX_FUNCTIONS:
        for function in FunctionValues(waiting.pop()).functions:
            if id(function) in functions:
                continue
            functions[id(function)] = function
            package = (function.__module__ or "").partition(".")[0]
            for path in sorted(global_reads(function)):
                value, _ = _value_of(path, function)
                if isinstance(value, FunctionType) and (value.__module__ or "").partition(".")[0] == package:
                    waiting.append(value)
    return list(functions.values())


def _changed_name(function: FunctionType) -> str | None:
    """A variable of an outer scope that a function rebinds; not one that it tests first, to make a value once."""
    outside = {**function.__globals__, **closure(function)}
    for code in _codes(function):
        steps = [step for step in dis.get_instructions(code) if step.opname not in _NO_STEPS]
        tested = {step.argval for step, after in pairwise(steps) if _is_test(after)}
        own = code.co_cellvars
        for step in steps:
            rebinds = step.opname in ("STORE_GLOBAL", "STORE_DEREF") and step.argval not in own
            if rebinds and step.argval not in tested and outside.get(step.argval) is not None:
                return str(step.argval)
    return None


def _is_test(step: dis.Instruction) -> bool:
    return "_IF_" in step.opname or step.opname == "TO_BOOL" or (step.opname == "LOAD_CONST" and step.argval is None)
