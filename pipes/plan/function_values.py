"""The parts of a user's function, and what it depends on: its code, values, and the globals that it reads.

The fingerprint, the check of globals in workers and the errors of what cannot be sent ask here. No code of the user
runs.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import NamedTuple, cast

from ..core.checks import (
    attributes,
    class_attribute,
    digest,
    frozen_fields,
    is_plain,
    partial_parts,
    shown_value,
    type_name,
    value_text,
)

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
        values = defaults(function)
        values |= {k: v for k, v in closure(function).items() if k not in uses.rebinds and k != "__class__"}
        values |= {k: v for k, v in vars(function).items() if k not in uses.sets}
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


def defaults(function: FunctionType) -> dict[str, object]:
    """The default values of a function's parameters, by their names."""
    code, values = function.__code__, function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    return dict(zip(positional[len(positional) - len(values) :], values, strict=True), **function.__kwdefaults__ or {})


def closure(function: FunctionType) -> dict[str, object]:
    """The variables of outer functions that a function uses, by their names, if they have a value."""
    values: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


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
        assigns: globals that it assigns.
        globals: those that it reads.
        reads: globals that it reads and does not assign, each with the attributes that it reads of it: `config.depth`.
    """

    names: frozenset[str]
    sets: frozenset[str]
    rebinds: frozenset[str]
    assigns: frozenset[str]
    globals: tuple[str, ...]
    reads: frozenset[str]


def global_reads(function: FunctionType) -> frozenset[str]:
    """The globals that a function reads and does not assign, as `config.depth`; names of builtins are among them."""
    return _uses(function.__code__).reads


def assigned_names(function: FunctionType) -> frozenset[str]:
    """The globals, and the attributes, that a function, or a function inside it, assigns."""
    uses = _uses(function.__code__)
    return uses.assigns | uses.sets


def global_names(function: FunctionType) -> tuple[str, ...]:
    """The globals that a function, or a function inside it, reads; names of builtins are among them."""
    return _uses(function.__code__).globals


@functools.lru_cache(maxsize=1024)
def _uses(code: CodeType) -> _Uses:
    by_operation: dict[str, set[str]] = {name: set() for name in _STORES}
    for instruction in dis.get_instructions(code):
        if instruction.opname in by_operation:
            by_operation[instruction.opname].add(instruction.argval)
    sets, rebinds, assigned = (by_operation[name] for name in _STORES)
    paths = list(_global_paths(code))
    names, reads = set(code.co_names), set(paths)
    inner_assigns = set[str]()
    globals_read = [path.split(".")[0] for path in paths]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _uses(constant)
            names |= inner.names
            sets |= inner.sets
            rebinds |= inner.rebinds
            inner_assigns |= inner.assigns
            reads |= inner.reads
            globals_read += inner.globals
    reads = {path for path in reads if path.split(".")[0] not in assigned and path.rpartition(".")[2] not in sets}
    in_order = tuple(dict.fromkeys(globals_read))
    assigns = frozenset(assigned | inner_assigns)
    return _Uses(frozenset(names), frozenset(sets), frozenset(rebinds), assigns, in_order, frozenset(reads))


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
