"""How a graph travels to worker processes, what it takes with it, and what cannot be sent.

What the user's `__main__` or another module that cannot be imported defines travels by value. Arrays and Arrow buffers
are in the file as they are, so the processes share them.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import mmap
import os
import pickle
import socket
import struct
import sys
from array import array
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from threading import RLock
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import cloudpickle  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from ...core.code import value_code
from ...core.graph import Node, node_code, walk
from ...core.operator import Operator
from ...core.rows import Array
from ...core.system import create_shared_file
from ...errors import ArgumentTypeError, CallSite
from . import importable
from .culprit import PickleError, find_culprit, named_type, path_of
from .packing import adopt, number_of, reduce_interval

_ALIGNMENT_BYTES = 64
_HEAD = struct.Struct("<7Q")


class _Head(NamedTuple):
    """The beginning of the file: places of the pickle, the table of buffers and the names of libraries.

    `depth` is that of the writer, among workers of workers.
    """

    start: int
    stop: int
    table_start: int
    table_stop: int
    names_start: int
    names_stop: int
    depth: int

    @staticmethod
    def of(fd: int) -> _Head:
        return _Head(*_HEAD.unpack(os.pread(fd, _HEAD.size, 0)))


def write_graph_file(content: object, root: Node) -> int:
    """The descriptor of a new file that holds `content`: the graph of `root`, and what else a worker needs.

    The caller closes it.

    Raises:
        ArgumentTypeError: something in `content` cannot be pickled.
        OSError: there is no room for the file.
    """
    file = _File(create_shared_file())
    try:
        try:
            _dump(content, file)
        except MemoryError:
            raise
        except Exception as error:
            if error is file.error:
                raise
            raise unpicklable_error(content, root, error, _pickle_error) from error
    except BaseException:
        os.close(file.fd)
        raise
    return file.fd


def read_graph_file(fd: int) -> tuple[object, dict[type, int]]:
    """The content of a file from `write_graph_file`, and the writer's number of each class that travelled by value.

    The file is mapped, and arrays are views of it: a page takes memory of this process once the process writes to it.
    """
    view = memoryview(mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_COPY))
    head = _Head.of(fd)
    places = view[head.table_start : head.table_stop].cast("Q").tolist()
    buffers = [view[begin:end] for begin, end in zip(places[::2], places[1::2], strict=True)]
    return cast("tuple[object, dict[type, int]]", pickle.loads(view[head.start : head.stop], buffers=buffers))


def begin_worker(fd: int) -> tuple[object, dict[type, int]]:
    """`read_graph_file` in a process that was started to run the graph; its elements may have the same classes."""
    importable.begin_worker(_Head.of(fd).depth)
    content, classes = read_graph_file(fd)
    adopt(classes)
    return content, classes


def imports_of(graph_file: int) -> dict[str, str]:
    """The modules that reading a file imports, or its operators later, as `with_files` returns them."""
    head = _Head.of(graph_file)
    names = json.loads(os.pread(graph_file, head.names_stop - head.names_start, head.names_start))
    return cast("dict[str, str]", names)


def with_files(names: Iterable[str]) -> dict[str, str]:
    """The names of modules, with the file of each that is imported, "" for another."""
    return {name: str(getattr(sys.modules.get(name), "__file__", None) or "") for name in sorted(names)}


def early_imports(values: Iterable[object]) -> dict[str, str]:
    """The modules that a graph with these functions and objects needs, as far as it takes no pickling to know them."""
    can_import = importable.Importable()
    names: set[object] = set()
    later: set[str] = set()
    for value in values:
        if isinstance(value, Operator):
            later.update(getattr(value, "worker_imports", ()))
        name = _module_of(value)
        names.add(name)
        if isinstance(name, str) and not can_import(name):
            names.update(map(_module_of, _globals_used(value)))
    known = {name for name in names if isinstance(name, str) and can_import(name) and not _is_being_imported(name)}
    return with_files(known | later)


def _globals_used(value: object) -> list[object]:
    """The global variables that a function, or a method of an object, names."""
    owner = value if isinstance(value, (FunctionType, type)) else type(value)
    functions = [owner] if isinstance(owner, FunctionType) else list(vars(owner).values())
    return [
        function.__globals__[name]
        for function in functions
        if isinstance(function, FunctionType)
        for name in function.__code__.co_names
        if name in function.__globals__
    ]


def _is_being_imported(name: str) -> bool:
    """Whether the top level of a module, or of a package around it, still runs: it may be what makes the loader."""
    package = name.rpartition(".")[0]
    is_running = getattr(getattr(sys.modules[name], "__spec__", None), "_initializing", False)
    return bool(is_running) or (package in sys.modules and _is_being_imported(package))


class _File:
    """The file that is written, and the places of the buffers in it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.places = array("Q")
        self.error: OSError | None = None
        self._end = _HEAD.size

    def keep(self, buffer: pickle.PickleBuffer) -> None:
        """Write a buffer at once, so that a buffer that was made for pickling can be freed."""
        with buffer.raw() as data:
            self.places.extend(self.write(data))

    def write(self, data: memoryview) -> tuple[int, int]:
        start = -(-self._end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        self._end = start + data.nbytes
        try:
            self._write(data, start)
        except OSError as error:
            self.error = error
            raise
        return start, self._end

    def close(self, head: _Head) -> None:
        self._write(memoryview(_HEAD.pack(*head)), 0)

    def _write(self, data: memoryview, at: int) -> None:
        while data.nbytes:  # one call writes up to 2 GiB
            written = os.pwrite(self.fd, data, at)
            data, at = data[written:], at + written


def _dump(content: object, file: _File) -> None:
    stream = io.BytesIO()
    pickler = _Pickler(stream, file.keep)
    with pickler.by_value():
        # In this order: the classes are complete once the content is pickled.
        pickler.dump((content, pickler.classes))
    with stream.getbuffer() as data:
        place = file.write(data)
    table = file.write(memoryview(file.places).cast("B"))
    names = file.write(memoryview(json.dumps(with_files(pickler.imports)).encode()))
    file.close(_Head(*place, *table, *names, importable.depth))


def _pickle_error(value: object) -> Exception | None:
    """The error of pickling `value` alone, if there is one."""
    pickler = _Pickler(_NullFile(), lambda buffer: None)
    try:
        with pickler.by_value():
            pickler.dump(value)
    except Exception as error:
        return error
    return None


class _NullFile:
    def write(self, data: object) -> int:
        return 0


def sending_error(root: Node) -> ArgumentTypeError | None:
    """The error of sending a graph to workers, if there is one. It writes nothing."""
    error = _pickle_error(root)
    return None if error is None else unpicklable_error(root, root, error, _pickle_error)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value what a fresh interpreter could not import.

    It gathers the classes that were pickled by value, with their numbers, and the modules that a reader imports.
    """

    def __init__(self, stream: object, keep: Callable[[pickle.PickleBuffer], object]) -> None:
        super().__init__(stream, protocol=5, buffer_callback=keep)
        self.classes: dict[type, int] = {}
        self.imports: set[str] = set()
        self._importable = importable.Importable()
        self._registered: list[ModuleType] = []
        self._tensor: Any = getattr(sys.modules.get("torch"), "Tensor", None)
        self._interval: Any = getattr(sys.modules.get("pyarrow"), "MonthDayNano", None)

    @contextmanager
    def by_value(self) -> Generator[None]:
        """Register modules to be pickled by value as they appear, and unregister them at the end."""
        with _registry:
            try:
                yield
            finally:
                for module in self._registered:
                    cloudpickle.unregister_pickle_by_value(module)
                self._registered.clear()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType, BuiltinFunctionType, TypeVar)):
            self._register(obj.__module__)
        elif isinstance(obj, ModuleType):
            self._register(obj.__name__)
        elif isinstance(obj, Node):
            return _reduce_graph(obj)
        elif isinstance(obj, Operator):
            self.imports.update(getattr(obj, "worker_imports", ()))
            reduce = getattr(obj, "reduce_for_worker", None)
            return NotImplemented if reduce is None else reduce()
        elif type(obj) is self._tensor:
            self.imports.add("torch")
            return _reduce_tensor(obj)
        elif type(obj) is self._interval:
            return reduce_interval(obj)
        elif isinstance(obj, _CACHED_FUNCTION) and not self._can_import(obj):
            return _cache, (obj.__wrapped__, obj.cache_parameters())
        elif isinstance(obj, io.TextIOWrapper) and obj not in (sys.stdout, sys.stderr):
            # cloudpickle would send the content of the file.
            raise TypeError(f"cannot pickle '{type(obj).__name__}' object")
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and reduced is not NotImplemented and len(reduced) > 2:  # Python's own have no state
            self.classes[obj] = number_of(obj)
        return reduced

    def _register(self, name: str | None) -> None:
        module = sys.modules.get(name) if name else None
        if module is None or name is None or sys.modules.get(module.__name__) is not module:
            return
        if self._importable(name):
            self.imports.add(name)
            return
        if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(module)
            self._registered.append(module)

    def _can_import(self, obj: Any) -> bool:
        """Whether another process can import `obj` by its name."""
        if not self._importable(obj.__module__):
            return False
        value: object = sys.modules[obj.__module__]
        for name in obj.__qualname__.split("."):
            value = getattr(value, name, None)
        return value is obj


_registry = RLock()
_CACHED_FUNCTION = type(functools.lru_cache(lambda: None))


def _module_of(value: Any) -> object:
    """The name of the module that a value is, or that defines it or its class."""
    if isinstance(value, ModuleType):
        return value.__name__
    has_name = isinstance(value, (type, FunctionType, BuiltinFunctionType))
    return value.__module__ if has_name else type(value).__module__


def _cache(function: Callable[..., object], parameters: dict[str, Any]) -> object:
    """Make a function with a cache again, which `functools` itself pickles by name only."""
    return functools.lru_cache(**parameters)(function)


_FlatNode: TypeAlias = tuple[type[Node], Operator, list[int], CallSite | None]
"""Class, operator, numbers of the inputs, call site."""


def _reduce_graph(root: Node) -> tuple[object, ...]:
    """Reduce the graph to a list, inputs first: pickle would recurse along a chain until Python's stack is full."""
    numbers: dict[Node, int] = {}
    nodes: list[_FlatNode] = []
    for node in walk(root):
        numbers[node] = len(nodes)
        nodes.append((type(node), node.op, [numbers[child] for child in node.inputs], node.call_site))
    return _make_graph, (nodes,)


def _make_graph(flat: list[_FlatNode]) -> Node:
    nodes: list[Node] = []
    for cls, op, inputs, call_site in flat:
        nodes.append(cls(op, tuple(nodes[number] for number in inputs), call_site))
    return nodes[-1]


def _reduce_tensor(tensor: Any) -> Any:
    from ...torch.tensors import reducer

    return reducer(_array_arguments)(tensor)


def _array_arguments(array: Array) -> tuple[object, ...]:
    """The arguments with which `np.ndarray` makes the array again; its memory goes into the file as it is."""
    if not array.flags.c_contiguous:
        array = array.copy("C")
    return array.shape, array.dtype.str, pickle.PickleBuffer(array.data)


# Errors of what cannot be sent: the operator, its line, and the part of its arguments.


def unpicklable_error(content: object, root: Node, error: Exception, pickle_error: PickleError) -> ArgumentTypeError:
    """The error for `content`, the graph of `root` and what travels with it, whose pickling has failed with `error`."""
    for node in walk(root):
        node_error = pickle_error(node.op)
        if node_error is not None:
            problem = _operator_problem(node.op, node_error, pickle_error)
            return _error(node_code(node), problem, node.call_site)
    for part in content if isinstance(content, tuple) else ():
        part_error = None if part is root else pickle_error(part)
        if part_error is not None:
            return _error("init", _argument_problem("init", part, part_error, pickle_error), None)
    return ArgumentTypeError(f"the pipe cannot be sent to a worker process: {_error_text(error)}")


def _error(culprit: str, problem: str, call_site: CallSite | None) -> ArgumentTypeError:
    return ArgumentTypeError(f"`{culprit}` cannot be sent to a worker process: {problem}", at=call_site)


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
    steps, culprit, error = find_culprit(value, error, pickle_error)
    type_name = named_type(culprit)
    if not callable(value):
        path = path_of([name, *steps])
        return f"`{path}` is {type_name}, and that cannot be pickled{_detail(error)}; {_repair(culprit, 'a function')}"
    if not steps:
        return f"{type_name} cannot be pickled{_detail(error)}; give a plain function, or an object of a class of yours"
    path = path_of(
        steps if isinstance(value, (FunctionType, MethodType, functools.partial, type)) else ["self", *steps]
    )
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


def _too_deep(error: BaseException) -> bool:
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def _detail(error: Exception) -> str:
    """What the error says beyond that something cannot be pickled."""
    return "" if str(error).lower().startswith(("cannot pickle", "can't pickle")) else f" ({_error_text(error)})"


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
