"""The fingerprint of a graph: the operators, arguments, functions and values that a saved state depends on."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from ..core.checks import digest, is_plain, shown_value
from ..core.code import call_code
from ..core.cursor import Json
from ..core.graph import Node, numbers, walk
from ..core.operator import Operator, Order, Trait, UnitSource
from ..files.open_files import OpenFiles
from .function_values import FunctionValues, qualified_name

MAX_FACTS = 32
"""The most values of one operator that are in a state each by itself; the rest count together."""
MAX_CALL = 200
"""The most characters of a call."""
MAX_IDENTITY = 1000
"""The most characters of a part of an identity; a longer one counts by its digest."""

SAVED = "plan"
"""The name of the fact with all that an operator has resolved for the runs that go on from a state."""
KIND = "operator"
"""The name of the fact with the kind of an operator whose chain function has another name."""

Facts: TypeAlias = "dict[str, Json]"
"""The facts of an operator, by name."""


class Fingerprint:
    """The entries of all operators, inputs first. The root of a storage, workers and prefetch do not count.

    Attributes:
        pipe: the operators, as JSON text; a state of other operators is refused.
        code: their functions, as JSON text; other code is a warning.
    """

    def __init__(self, root: Node) -> None:
        operators: list[OperatorEntry] = []
        functions: list[FunctionEntry] = []
        number = numbers(root)
        for node in walk(root):
            if node.op.trait is Trait.TRANSPARENT:
                continue
            facts, function_entry = _facts_and_functions(node.op, is_source=not node.inputs)
            entry = OperatorEntry(_call(node), [number[child] for child in node.inputs], facts)
            if entry.kind != node.op.kind:
                facts[KIND] = node.op.kind
            operators.append(entry)
            functions.append(function_entry)
        self.pipe = json.dumps(operators)
        self.code = json.dumps([_python(), functions])


class OperatorEntry(NamedTuple):
    """One operator in a fingerprint.

    Attributes:
        call: as the user wrote it, without the place of files.
        inputs: the entries of its inputs, by their number.
        facts: its arguments and its identity (lengths, types, digests). A function counts by its module and qualified
            name; if the operator decides on rows or their order, also by the values that it depends on.
    """

    call: str
    inputs: list[int]
    facts: Facts

    @property
    def kind(self) -> str:
        """The kind of the operator. The call is for messages: facts have what must stay the same."""
        kind = self.facts.get(KIND)
        return kind if isinstance(kind, str) else self.call.partition("(")[0]

    @property
    def input_names(self) -> Sequence[str]:
        """The user's names for its inputs."""
        names = self.facts.get("inputs")
        return cast("list[str]", names) if isinstance(names, list) else ()


class FunctionEntry(NamedTuple):
    """The functions of one operator, which may change with a warning.

    Attributes:
        code: a digest of each function's code.
        values: those that the functions depend on, if the operator moves no rows, such as `map`.
    """

    code: Facts
    values: Facts


def differences(saved: str, now: str) -> list[str]:
    """The differences between two fingerprints' `pipe`, a line each."""
    old_entries, new_entries = entries(saved), entries(now)
    lines: list[str] = []
    if len(old_entries) != len(new_entries):
        lines.append(f"the pipe had {len(old_entries)} operators and now has {len(new_entries)}")
    for old, new in zip(old_entries, new_entries, strict=False):
        if changes := fact_differences(old, new):
            lines.extend(changes)
        elif old.inputs != new.inputs:
            lines.append(f"`{new.call}` has other inputs")
    return lines


def fact_differences(old: OperatorEntry, new: OperatorEntry) -> list[str]:
    """The differences between two operators, a line each."""
    old_facts, new_facts = _comparable(old.facts, new.facts)
    if (old.kind, old_facts) == (new.kind, new_facts):
        return []
    calls = [f"`{old.call}` is now `{new.call}`"] if old.call != new.call else []
    return calls or list(_changes(old_facts, new_facts, new.call))


def _comparable(old: Facts, new: Facts) -> tuple[Facts, Facts]:
    """The facts to compare: a listing may be kept in an index on one side only, and its digest is among the others."""
    if (SAVED in old) == (SAVED in new):
        return old, new
    without = ({name: value for name, value in facts.items() if name != SAVED} for facts in (old, new))
    return next(without), next(without)


def saved_operators(saved: str, root: Node) -> dict[Node, Operator]:
    """The operators of the graph `root` whose listings and types a state fixes.

    Args:
        saved: the `pipe` of a fingerprint. An operator with other arguments is left out, and so is another graph.
        root: the graph, not resolved.
    """
    nodes = [node for node in walk(root) if node.op.trait is not Trait.TRANSPARENT]
    saved_entries = entries(saved)
    if len(nodes) != len(saved_entries):
        return {}
    operators: dict[Node, Operator] = {}
    for node, entry in zip(nodes, saved_entries, strict=True):
        text = entry.facts.get(SAVED)
        if not isinstance(text, str) or not isinstance(node.op, UnitSource) or entry.kind != node.op.kind:
            continue
        resolved = node.resolved[1]
        is_same = resolved is not None and cast("UnitSource", resolved.op).saved() == text
        arguments, _ = _facts_and_functions(node.op, is_source=not node.inputs)
        if not is_same and all(entry.facts.get(name) == value for name, value in arguments.items()):
            restored = node.op.restored(text)
            if restored is not node.op:
                operators[node] = restored
    return operators


def code_differences(saved: str, now: str, pipe: str) -> list[str]:
    """The differences between two fingerprints' `code`, a line each; both are of `pipe`."""
    if saved == now:
        return []
    (old_python, old_entries), (new_python, new_entries) = _functions(saved), _functions(now)
    lines: list[str] = []
    for old, new, entry in zip(old_entries, new_entries, entries(pipe), strict=False):
        lines.extend(_changes(old.values, new.values, entry.call))
        if old_python == new_python:  # else the same function has other code
            names = sorted(name for name in {*old.code, *new.code} if old.code.get(name) != new.code.get(name))
            lines.extend(f"the code of `{name}` in `{entry.call}` has changed" for name in names)
    return lines


def facts_of(op: Operator, *, is_source: bool) -> Facts:
    """The facts of an operator."""
    return _facts_and_functions(op, is_source=is_source)[0]


def _facts_and_functions(op: Operator, *, is_source: bool) -> tuple[Facts, FunctionEntry]:
    facts: Facts = {}
    values: Facts = {}
    code: Facts = {}
    for name, argument, is_default in _arguments(op):
        if is_plain(argument) and not callable(argument):
            if not is_default:
                facts[name] = shown_value(argument)
            continue
        facts[name] = qualified_name(argument)
        function = FunctionValues(argument, reads=is_source)
        values |= function.values
        code |= function.code
    if moves_rows(op):
        facts |= values
        values = {}
    identity = op.identity()
    if isinstance(identity, Mapping):
        facts |= {name: _bounded(value) for name, value in identity.items()}
    elif identity is not None:
        facts["identity"] = _bounded(identity)
    if isinstance(op, UnitSource) and (saved := op.saved()) is not None:
        facts = {SAVED: saved, **facts}
    return _few(facts), FunctionEntry(_few(code), _few(values))


def moves_rows(op: Operator) -> bool:
    """Whether a function of `op` may decide which rows come, or in which order.

    An operator that treats each row by itself, and passes positions on to its input, gives one row for each row.
    """
    return not (getattr(op, "order", None) is Order.ROW_LOCAL and op.seeks)


def _call(node: Node) -> str:
    """The call, without the place of files, which may move, and without arguments that rows do not depend on."""
    op = node.op
    defaults: dict[str, object] = {
        field.name: field.default
        for field in dataclasses.fields(op)  # type: ignore[arg-type]
        if field.init and field.repr and not field.compare and field.default is not dataclasses.MISSING
    }
    if any(getattr(op, name) is not default for name, default in defaults.items()):
        op = cast("Operator", dataclasses.replace(cast("Any", op), **defaults))
    has_place = not node.inputs or isinstance(op, OpenFiles)
    call = (call_code(op) if has_place else op.call()) or f"{op.kind}()"
    return call if len(call) <= MAX_CALL else f"{call[: MAX_CALL - 20]}... {digest(call)})"


def _arguments(op: Operator) -> Iterator[tuple[str, object, bool]]:
    """Each argument that rows depend on: its name, its value, and whether that is the default."""
    for field in dataclasses.fields(op):  # type: ignore[arg-type]
        if field.init and field.repr and field.compare:
            value = getattr(op, field.name)
            default = field.default
            yield field.name, value, value is default or (is_plain(default) and digest(value) == digest(default))


def _bounded(value: Json) -> Json:
    """`value`, or a digest of it if it is long."""
    text = json.dumps(value)
    return value if len(text) <= MAX_IDENTITY else digest(text)


def _few(facts: Facts) -> Facts:
    """The facts; the last ones of many count together."""
    if len(facts) <= MAX_FACTS:
        return facts
    items = list(facts.items())
    return dict(items[:MAX_FACTS]) | {"...": digest(items[MAX_FACTS:])}


def _changes(old: Facts, new: Facts, call: str) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if name not in old or name not in new:
            yield f"`{name}` in `{call}` is {'new' if name in new else 'gone'}"
        elif name == "digest":
            yield f"what `{call}` lists has changed, by names or sizes"
        elif name == SAVED or _is_digest(before) or _is_digest(after):
            yield f"`{name}` in `{call}` has changed"
        else:
            yield f"`{name}` in `{call}` was {_shown(before)} and is now {_shown(after)}"


def _is_digest(value: Json) -> bool:
    return isinstance(value, str) and value.startswith("#")


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def entries(pipe: str) -> list[OperatorEntry]:
    """The entries of the `pipe` of a fingerprint."""
    return [OperatorEntry(*entry) for entry in json.loads(pipe)]


def values_of(code: str) -> list[Facts]:
    """The values that the functions of each operator depend on, of the `code` of a fingerprint."""
    return [functions.values for functions in _functions(code)[1]]


def _functions(code: str) -> tuple[str, list[FunctionEntry]]:
    python, functions = json.loads(code)
    return python, [FunctionEntry(*entry) for entry in functions]


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
