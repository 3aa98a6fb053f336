"""What the functions of a graph read of modules: it travels with the graph, and later changes are named."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import locale
import logging
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from ...core.checks import attributes, class_attribute, digest, is_plain
from ...core.graph import Node, walk
from ...errors import WorkerWarning, warn
from ...plan.function_values import FunctionValues, assigned_names, code_digest, global_reads
from .importable import Importable, is_of_user

log = logging.getLogger("feedpipe")

MAX_READS = 1000
"""The globals of a graph that are compared."""
_MISSING = object()
_MAX_DEPTH = 10

Place: TypeAlias = tuple[str, tuple[str, ...]]
"""A module that workers import, and the attributes that lead to a value in it."""


class _Read(NamedTuple):
    """A function reads a global, or an attribute that the path leads to; `captured` is a digest of what travelled."""

    function: str
    path: str
    namespace: dict[str, object]
    captured: str


class CapturedGlobals:
    """The globals that the functions of a graph read, when the graph travelled.

    These count: plain values, also as attributes of modules, classes and objects (`config.depth`), and the code of
    functions, which are followed in turn, also into modules of the user that workers import. What one of these
    functions assigns itself is a state of the run. No code of a user is called.

    Attributes:
        state: what workers take over: they import a module anew, without the values that the program has set in it.
    """

    def __init__(self, root: Node) -> None:
        self._reads: list[_Read] = []
        values: dict[Place, object] = {}
        assigned: set[str] = set()
        names_torch = False
        importable = Importable()
        seen: set[tuple[int, str]] = set()  # by namespace and path
        visited: set[int] = set()
        functions = [function for node in walk(root) for function in _functions(node)]
        while functions and len(self._reads) < MAX_READS:
            function = functions.pop()
            if id(function) in visited:
                continue
            visited.add(id(function))
            home = None
            if importable(function.__module__) and "<" not in function.__qualname__:
                home = function.__module__
                if not is_of_user(sys.modules[home]):
                    continue
            namespace = function.__globals__
            assigned |= assigned_names(function)
            for path in sorted(global_reads(function)):
                names_torch |= namespace.get(path.partition(".")[0]) is sys.modules.get("torch", _MISSING)
                path, value = _value(namespace, path)
                if (id(namespace), path) not in seen:
                    seen.add((id(namespace), path))
                    captured = _digest(value)
                    if captured is not None:
                        self._reads.append(_Read(function.__name__, path, namespace, captured))
                    place = _place(namespace, path, home, importable)
                    if place is not None and _travels(value):
                        values[place] = value
                    functions += FunctionValues(value).functions
        self.state = ModuleState(
            [(place, value) for place, value in values.items() if place[1][-1] not in assigned], _library_settings()
        )
        if names_torch:
            _warn_of_device()

    def changes(self) -> list[tuple[str, str]]:
        """The globals that have changed since then, each once: its name and that of a function that reads it."""
        changed = [read for read in self._reads if _digest(_value(read.namespace, read.path)[1]) != read.captured]
        if changed:
            self._reads = [read for read in self._reads if read not in changed]
        return [(read.path, read.function) for read in changed]

    def warn_of_changes(self) -> None:
        """Warn of each global that has changed since then, once."""
        for name, function in self.changes():
            warn(
                f"the global `{name}`, which `{function}` reads, has changed since the workers started, and they do "
                "not see that; make a new loader, or give the value to the function through its rows",
                WorkerWarning,
            )


def _value(namespace: dict[str, object], path: str) -> tuple[str, object]:
    """The part of a path that leads to a value, and the value: a global, or an attribute of one.

    A path ends at a plain value or a function. The value is `_MISSING` if it is not there.
    """
    name, *names = path.split(".")
    value = namespace.get(name, _MISSING)
    for attribute in names:
        if is_plain(value) or isinstance(value, FunctionType):
            break
        value = _attribute(value, attribute)
        name += f".{attribute}"
    return name, value


def _attribute(value: object, name: str) -> object:
    if issubclass(type(value), type):
        return class_attribute(cast("type", value), name, _MISSING)
    shared = class_attribute(type(value), name, _MISSING)
    return attributes(value).get(name, shared)


def _place(namespace: dict[str, object], path: str, home: str | None, importable: Importable) -> Place | None:
    """Where workers find the value of a path by name; None if it travels with the function.

    `home` is the module of the function, if workers import it.
    """
    name, *names = path.split(".")
    value = namespace.get(name, _MISSING)
    place = None if home is None else (home, (name, *names))
    for i, attribute in enumerate(names):
        if isinstance(value, ModuleType) and importable(value.__name__):
            place = value.__name__, tuple(names[i:])
        elif issubclass(type(value), type):
            cls = cast("type", value)
            if importable(cls.__module__) and "<" not in cls.__qualname__:
                place = cls.__module__, (*cls.__qualname__.split("."), *names[i:])
        value = _attribute(value, attribute)
    return place


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


def _travels(value: object, depth: int = 0) -> bool:
    """Whether a value is a setting: a number, a text, a type of torch, or a container or an array of such."""
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes) or issubclass(kind, (enum.Enum, PurePath)):
        return True
    if issubclass(kind, (np.ndarray, np.generic)):
        return not cast("Any", value).dtype.hasobject
    if kind in (list, tuple, set, frozenset, dict) and depth < _MAX_DEPTH:
        items = [*value.items()] if kind is dict else value  # type: ignore[attr-defined]
        return all(_travels(item, depth + 1) for item in cast("list[object]", items))
    return kind.__module__ == "torch" and kind.__name__ in ("dtype", "device")


# What workers take over.


class ModuleState(NamedTuple):
    """Values of modules that workers import, and settings of libraries. Workers take them over by unpickling it."""

    values: list[tuple[Place, object]]
    settings: list[tuple[_Setting, object]]

    def __reduce__(self) -> tuple[object, ...]:
        return _take_over, (self.values, self.settings)


def _take_over(values: list[tuple[Place, object]], settings: list[tuple[_Setting, object]]) -> None:
    for (module, names), value in values:
        try:
            _set(importlib.import_module(module), names, value)
        except Exception as error:  # a module that cannot be imported says so where a function needs it
            log.warning("`%s` has another value in workers: %s", ".".join((module, *names)), error)
    for setting, value in settings:
        if setting.get() != value:
            setting.set(value)


def _set(holder: object, names: tuple[str, ...], value: object) -> None:
    for name in names[:-1]:
        holder = getattr(holder, name)
    before = getattr(holder, names[-1], _MISSING)
    if type(before) is type(value) and (before is value or repr(before) == repr(value)):
        return
    if isinstance(before, dict) and isinstance(value, dict):  # another module may have imported it by its name
        before.clear()
        before.update(value)
    elif isinstance(before, list) and isinstance(value, list):
        before[:] = value
    else:
        setattr(holder, names[-1], value)


class _Setting(NamedTuple):
    """A setting of a library that changes what functions return.

    Attributes:
        module: its module. What a program has not imported, it has not set.
        read: the variable, or the function that returns the value.
        write: the function that sets it; "" for a variable.
        default: in a new process; `_MISSING` if `read` costs no import there.
    """

    module: str
    read: str
    write: str = ""
    default: object = _MISSING

    def get(self) -> object:
        value = getattr(importlib.import_module(self.module), self.read)
        return value() if self.write else value

    def set(self, value: object) -> None:
        library = importlib.import_module(self.module)
        if self.write:
            getattr(library, self.write)(value)
        else:
            setattr(library, self.read, value)


_SETTINGS = [
    _Setting("torch", "get_default_dtype", "set_default_dtype", "torch.float32"),
    _Setting("torch", "are_deterministic_algorithms_enabled", "use_deterministic_algorithms", False),
    _Setting("torch", "get_float32_matmul_precision", "set_float32_matmul_precision", "highest"),
    _Setting("PIL.ImageFile", "LOAD_TRUNCATED_IMAGES", default=False),
    _Setting("PIL.Image", "MAX_IMAGE_PIXELS", default=2**30 // 4 // 3),
    _Setting("csv", "field_size_limit", "field_size_limit"),
    _Setting("socket", "getdefaulttimeout", "setdefaulttimeout"),
    _Setting("decimal", "getcontext", "setcontext"),
    _Setting(__name__, "numpy_errors", "set_numpy_errors"),
    _Setting(__name__, "current_locale", "set_locale"),
    _Setting(__name__, "log_levels", "set_log_levels"),
]


def numpy_errors() -> Mapping[str, str]:
    return cast("Mapping[str, str]", np.geterr())


def set_numpy_errors(errors: Mapping[str, Any]) -> None:
    np.seterr(**errors)


def current_locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def set_locale(name: str) -> None:
    locale.setlocale(locale.LC_ALL, name)


def log_levels() -> dict[str, int]:
    """The levels of all loggers that have one, and under "" the level that `logging.disable` has set."""
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    levels = {name: each.level for name, each in loggers.items() if isinstance(each, logging.Logger) and each.level}
    return levels | {"": logging.root.manager.disable}


def set_log_levels(levels: dict[str, int]) -> None:
    logging.disable(levels.pop(""))
    for name, level in levels.items():
        (logging.root if name == "root" else logging.getLogger(name)).setLevel(level)


def _library_settings() -> list[tuple[_Setting, object]]:
    """The settings that the program has changed."""
    values = [(setting, setting.get()) for setting in _SETTINGS if setting.module in sys.modules]
    return [(setting, value) for setting, value in values if str(value) != str(setting.default)]


def _warn_of_device() -> None:
    """Warn if functions would make their tensors elsewhere than in the program."""
    device = getattr(sys.modules["torch"], "get_default_device", partial(str, "cpu"))()
    if str(device) != "cpu":
        warn(
            f"torch's default device is {str(device)!r} here, and workers make tensors on the CPU; give `device=` to "
            "the calls that make tensors",
            WorkerWarning,
        )
