"""The fingerprint of a graph: the operators, arguments, functions and values that a saved state depends on."""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import json
import operator
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, NamedTuple, TypeAlias, cast

from ..core.checks import (
    attributes,
    class_attribute,
    digest,
    frozen_fields,
    is_plain,
    partial_parts,
    type_name,
    value_text,
)
from ..core.code import call_code
from ..core.cursor import Json
from ..core.graph import Node, walk
from ..core.operator import Operator, Order
from ..files.open_files import OpenFiles

MAX_FACTS = 32
"""The most values of one operator that are in a state each by itself; the rest count together."""
MAX_CALL = 200
"""The most characters of a call."""
MAX_IDENTITY = 1000
"""The most characters of a part of an identity; a longer one counts by its digest."""

SAVED = "plan"
"""The name of the fact with all that an operator has resolved for the runs that go on from a state."""

Facts: TypeAlias = "dict[str, Json]"
"""The facts of an operator, by name."""


class Fingerprint:
    """The entries of all operators, inputs first. The root of a storage, workers and prefetch do not count.

    Attributes:
        pipe: the operators, as JSON text; a state of other operators is refused.
        code: their functions, as JSON text; other code is a warning.
    """

    def __init__(self, root: Node) -> None:
        entries: list[OperatorEntry] = []
        functions: list[FunctionEntry] = []
        number: dict[Node, int] = {}
        for node in walk(root):
            if node.op.transparent:
                number[node] = number[node.inputs[0]]
                continue
            number[node] = len(entries)
            facts, function_entry = _facts(node.op, is_source=not node.inputs)
            entries.append(OperatorEntry(_call(node), [number[child] for child in node.inputs], facts))
            functions.append(function_entry)
        self.pipe = json.dumps(entries)
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
        """The name of the chain function. The rest of the call is for messages: facts have what must stay the same."""
        return self.call.partition("(")[0]


class FunctionEntry(NamedTuple):
    """The functions of one operator, which may change with a warning.

    Attributes:
        code: a digest of each function's code.
        values: those that the functions depend on, if the operator moves no rows, such as `map`.
    """

    code: Facts
    values: Facts


def differences(saved: str, now: str) -> list[str]:
    """The differences between two fingerprints' `pipe`, a line each.

    Raises:
        ValueError: one of them is no fingerprint.
    """
    old_entries, new_entries = _entries(saved), _entries(now)
    lines: list[str] = []
    if len(old_entries) != len(new_entries):
        lines.append(f"the pipe had {len(old_entries)} operators and now has {len(new_entries)}")
    for old, new in zip(old_entries, new_entries, strict=False):
        if (old.kind, old.facts) != (new.kind, new.facts):
            calls = [f"`{old.call}` is now `{new.call}`"] if old.call != new.call else []
            lines.extend(calls or _changes(old.facts, new.facts, new.call))
        elif old.inputs != new.inputs:
            lines.append(f"`{new.call}` has other inputs")
    return lines


def saved_operators(saved: str, root: Node) -> dict[Node, Operator]:
    """The operators of the graph `root` whose listings and types a state fixes.

    Args:
        saved: the `pipe` of a fingerprint. An operator with other arguments is left out, and so is another graph.
        root: the graph, not resolved.

    Raises:
        ValueError: `saved` is no fingerprint.
    """
    nodes = [node for node in walk(root) if not node.op.transparent]
    entries = _entries(saved)
    if len(nodes) != len(entries):
        return {}
    operators: dict[Node, Operator] = {}
    for node, entry in zip(nodes, entries, strict=True):
        text = entry.facts.get(SAVED)
        if not isinstance(text, str) or type(node.op).saved is Operator.saved or entry.kind != node.op.kind:
            continue
        resolved = node.resolved[1]
        is_same = resolved is not None and resolved.op.saved() == text
        arguments, _ = _facts(node.op, is_source=not node.inputs)
        if not is_same and all(entry.facts.get(name) == value for name, value in arguments.items()):
            operators[node] = node.op.restored(text)
    return operators


def code_differences(saved: str, now: str, pipe: str) -> list[str]:
    """The differences between two fingerprints' `code`, a line each; both are of `pipe`.

    Raises:
        ValueError: one of them is no fingerprint.
    """
    if saved == now:
        return []
    (old_python, old_entries), (new_python, new_entries) = _functions(saved), _functions(now)
    lines: list[str] = []
    for old, new, entry in zip(old_entries, new_entries, _entries(pipe), strict=False):
        lines.extend(_changes(old.values, new.values, entry.call))
        if old_python == new_python:  # else the same function has other code
            names = sorted(name for name in {*old.code, *new.code} if old.code.get(name) != new.code.get(name))
            lines.extend(f"the code of `{name}` in `{entry.call}` has changed" for name in names)
    return lines


def _facts(op: Operator, *, is_source: bool) -> tuple[Facts, FunctionEntry]:
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
    if (saved := op.saved()) is not None:
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


def _entries(text: str) -> list[OperatorEntry]:
    entries = json.loads(text)
    if not isinstance(entries, list):
        raise ValueError("a fingerprint is a list")
    return [_entry(entry) for entry in entries]


def _entry(entry: Json) -> OperatorEntry:
    if not (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str) and isinstance(entry[2], dict)):
        raise ValueError("an entry of a fingerprint is a call, its inputs and its facts")
    return OperatorEntry(*cast("tuple[str, list[int], Facts]", tuple(entry)))


def _functions(text: str) -> tuple[str, list[FunctionEntry]]:
    functions = json.loads(text)
    if not (isinstance(functions, list) and len(functions) == 2 and isinstance(functions[1], list)):
        raise ValueError("the functions of a fingerprint are a version of Python and a list")
    for entry in functions[1]:
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(facts, dict) for facts in entry)):
            raise ValueError("the functions of an operator are code and values")
    return cast("str", functions[0]), [FunctionEntry(*entry) for entry in functions[1]]


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


# The values that functions depend on


MAX_VALUES = 1000
"""The most values and functions of one operator that count."""
MAX_METHODS = 200
"""The most methods of a class that are followed."""

_CALL = ("__call__",)
_READ = ("__call__", "__iter__", "__next__", "__getitem__", "__getitems__", "__len__")
"""The methods by which a source reads a dataset."""
_NAMED = (FunctionType, BuiltinFunctionType, MethodType)
_BUILTIN = (BuiltinFunctionType, MethodWrapperType)
_ATTRIBUTE_CALLS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_GLOBAL_READS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTE_READS = ("LOAD_ATTR", "LOAD_METHOD")
_STORES = ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL")
_MAX_SHOWN = 60
_MAX_DEPTH = 10
_MAX_ITEMS = 100


class FunctionValues:
    """The values that a function, or a dataset, depends on, by a path such as `keep.threshold`.

    These count: the code of a function, its defaults, its closure, and the arguments of a `partial`; of an object that
    is called or read, the attributes that its methods read on the way; of any other object, the public attributes that
    the code around it names; and so on for the values found. A variable that code rebinds itself, such as a counter, is
    a state of the run and does not count. Globals do not count.

    Attributes:
        values: each value as text: as it is if it is a number, else a digest. A state is saved in plain text, and a
            closure may hold a password.
        code: a digest of each function's code.
        functions: the functions themselves, with the methods.
    """

    def __init__(self, root: object, *, reads: bool = False) -> None:
        self.values: dict[str, str] = {}
        self.code: dict[str, str] = {}
        self.functions: list[FunctionType] = []
        self._entry_points = _READ if reads else _CALL
        self._seen: set[int] = set()
        self._visit(root, short_name(root), frozenset())

    def _visit(self, value: object, path: str, names: frozenset[str]) -> None:
        """Notes a value; `names` are those in the code around it."""
        if len(self.values) + len(self.code) >= MAX_VALUES:
            return
        kind = type(value)
        plain = is_plain(value) and not callable(value)
        if plain and frozen_fields(value) is None and not _holds_others(value):
            self.values[path] = shown_value(value)
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if plain:
            self._visit_all(_items(value), path, names)
        elif kind is FunctionType:
            self._visit_function(cast("FunctionType", value), path)
        elif issubclass(kind, functools.partial):
            function, arguments, keywords = partial_parts(value)
            self._visit(function, path, names)
            self._visit_all([*_numbered(arguments), *keywords.items()], path, names)
        elif kind is MethodType:
            method = cast("MethodType", value)
            self._visit(method.__func__, path, names)
            self._visit_object(method.__self__, path, frozenset([short_name(method)]), ())
        elif kind in _BUILTIN:
            owner = cast("BuiltinFunctionType", value).__self__
            if owner is not None and type(owner) is not ModuleType:
                self._visit(owner, path, names)  # such as `allowed.__contains__`
        elif kind in _ATTRIBUTE_CALLS:
            self.values[path] = shown_value(cast("tuple[object, ...]", value.__reduce__())[1:])
        elif kind is re.Pattern:
            pattern = cast("re.Pattern[str]", value)
            self.values[path] = shown_value((pattern.pattern, pattern.flags))
        elif kind is ModuleType or issubclass(kind, type):
            self.values[path] = f"<{qualified_name(value)}>"
        else:
            self._visit_object(value, path, names, self._entry_points)

    def _visit_all(self, items: Iterable[tuple[str, object]], path: str, names: frozenset[str]) -> None:
        for name, item in items:
            self._visit(item, f"{path}.{name}", names)

    def _visit_function(self, function: FunctionType, path: str) -> None:
        code = function.__code__
        uses = _uses(code)
        self.code[path] = code_digest(code)
        self.functions.append(function)
        positional = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        values: dict[str, object] = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        values.update(function.__kwdefaults__ or {})
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in uses.rebinds and name != "__class__" and not _is_empty(cell):
                values[name] = cell.cell_contents
        values.update((name, value) for name, value in vars(function).items() if name not in uses.sets)
        self._visit_all(values.items(), path, uses.names)

    def _visit_object(self, value: object, path: str, names: frozenset[str], entry_points: Sequence[str]) -> None:
        """Notes the attributes of `value` that are read by the methods called: entry points, and those of `names`.

        If none of these is a method in Python, `names` are the attributes that count.
        """
        kind = type(value)
        entered = [name for name in entry_points if _function_of(class_attribute(kind, name)) is not None]
        is_entered = bool(entered) or not entry_points
        methods, read = _methods(kind, entered or names) if is_entered else ({}, names)
        self.values.setdefault(path, f"<{type_name(kind)}>")
        if methods:
            self.code[path] = digest([(name, code_digest(methods[name].__code__)) for name in sorted(methods)])
            self.functions += methods.values()
        own = attributes(value)
        for name in sorted(read):
            if name.startswith("__") or (name.startswith("_") and not is_entered):
                continue
            if name in own:
                self._visit(own[name], f"{path}.{name}", read)
            elif (shared := class_attribute(kind, name)) is not None and is_plain(shared):
                self._visit(shared, f"{path}.{name}", read)


def _methods(kind: type, names: Iterable[str]) -> tuple[dict[str, FunctionType], frozenset[str]]:
    """The methods of a class that are reached from `names`, and the names that these read and do not set."""
    methods: dict[str, FunctionType] = {}
    read, sets = set[str](), set[str]()
    waiting = list(names)
    while waiting and len(methods) < MAX_METHODS:
        name = waiting.pop()
        method = _function_of(class_attribute(kind, name))
        if method is None or name in methods:
            continue
        methods[name] = method
        uses = _uses(method.__code__)
        waiting.extend(sorted(uses.names))
        read |= uses.names
        sets |= uses.sets
    return methods, frozenset(read - sets)


def short_name(value: object) -> str:
    """The name of a function, or of the class of an object."""
    if issubclass(type(value), functools.partial):
        return short_name(partial_parts(value)[0])
    if type(value) in (*_NAMED, MethodWrapperType):
        return cast("FunctionType", value).__name__
    cls = cast("type", value) if issubclass(type(value), type) else type(value)
    return cast("str", type.__getattribute__(cls, "__name__"))


def qualified_name(value: object) -> str:
    """The module and the qualified name of a function, or of the class of an object."""
    kind = type(value)
    if issubclass(kind, functools.partial):
        return qualified_name(partial_parts(value)[0])
    if kind is MethodType:
        return qualified_name(cast("MethodType", value).__func__)
    if kind is ModuleType:
        return cast("ModuleType", value).__name__
    if kind is MethodWrapperType:
        return cast("MethodWrapperType", value).__qualname__
    if kind in _NAMED:
        function = cast("FunctionType", value)
        return f"{function.__module__}.{function.__qualname__}"
    return type_name(cast("type", value) if issubclass(kind, type) else kind)


def shown_value(value: object) -> str:
    """A plain value as text: itself if it holds only numbers and is short, else a digest."""
    if _is_number(value) or (type(value) in (tuple, list) and all(map(_is_number, cast("list[object]", value)))):
        text = repr(value)
        if len(text) <= _MAX_SHOWN:
            return text
    return digest(value)


def code_digest(code: CodeType) -> str:
    """A digest of a function's code, without its file, its lines and the order of its sets in this process."""
    state = hashlib.blake2b(digest_size=6)
    _update(state, code)
    return state.hexdigest()


def _update(state: hashlib.blake2b, code: CodeType) -> None:
    state.update(code.co_code)
    has_line = "__firstlineno__" in code.co_names  # Python 3.13 notes the line of a class in its body
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _update(state, constant)
        elif not (has_line and constant == code.co_firstlineno):
            state.update(value_text(constant).encode("utf-8", "surrogatepass"))
    state.update(repr(code.co_names).encode())


class _Uses(NamedTuple):
    """The names that code uses.

    Attributes:
        names: all of them.
        sets: attributes that it sets.
        rebinds: variables of outer functions that it assigns.
        reads: globals that it reads and does not assign, each with the attributes that it reads of it: `config.depth`.
    """

    names: frozenset[str]
    sets: frozenset[str]
    rebinds: frozenset[str]
    reads: frozenset[str]


def global_reads(function: FunctionType) -> frozenset[str]:
    """The globals that a function reads and does not assign, as `config.depth`; names of builtins are among them."""
    return _uses(function.__code__).reads


@functools.lru_cache(maxsize=1024)
def _uses(code: CodeType) -> _Uses:
    by_operation: dict[str, set[str]] = {name: set() for name in _STORES}
    for instruction in dis.get_instructions(code):
        if instruction.opname in by_operation:
            by_operation[instruction.opname].add(instruction.argval)
    sets, rebinds, assigned = (by_operation[name] for name in _STORES)
    reads = set(_global_paths(code))
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _uses(constant)
            names |= inner.names
            sets |= inner.sets
            rebinds |= inner.rebinds
            reads |= inner.reads
    reads = {path for path in reads if path.split(".")[0] not in assigned and path.rpartition(".")[2] not in sets}
    return _Uses(frozenset(names), frozenset(sets), frozenset(rebinds), frozenset(reads))


def _global_paths(code: CodeType) -> Iterator[str]:
    """Each global that code reads, with the attributes that it reads of it at once."""
    path = ""
    for instruction in dis.get_instructions(code):
        if path and instruction.opname in _ATTRIBUTE_READS:
            path += f".{instruction.argval}"
        elif instruction.opname != "EXTENDED_ARG":
            if path:
                yield path
            path = instruction.argval if instruction.opname in _GLOBAL_READS else ""


def _function_of(member: object) -> FunctionType | None:
    """The function of a method or a property in a class."""
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    elif type(member) is property:
        member = member.fget
    elif type(member) is functools.cached_property:
        member = member.func
    return member if isinstance(member, FunctionType) else None


def _is_empty(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def _is_number(value: object) -> bool:
    return value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() <= 128)


def _holds_others(value: object, depth: int = 0) -> bool:
    """Whether a plain container holds functions or objects, which count by their contents."""
    if depth == _MAX_DEPTH:
        return False
    return any(not is_plain(item) or _holds_others(item, depth + 1) for _, item in _items(value))


def _items(value: object) -> list[tuple[str, object]]:
    """The items of a plain container that is not long, by their number or the name of their field."""
    kind = type(value)
    if kind in (tuple, list, dict):
        items = cast("Collection[object]", value.values() if kind is dict else value)  # type: ignore[attr-defined]
        return _numbered(items) if len(items) <= _MAX_ITEMS else []
    return list((frozen_fields(value) or {}).items())


def _numbered(items: Iterable[object]) -> list[tuple[str, object]]:
    return [(str(i), item) for i, item in enumerate(items)]
