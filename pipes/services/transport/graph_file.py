"""How a graph travels to worker processes: it is pickled once, into a file in memory that all of them map.

What the user's `__main__` or another module that cannot be imported defines travels by value. Arrays and Arrow buffers
are in the file as they are, so the processes share them.
"""

from __future__ import annotations

import functools
import io
import mmap
import os
import pickle
import struct
import sys
import weakref
from array import array
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import RLock
from types import FunctionType, ModuleType
from typing import Any, TypeAlias, TypeVar, cast

import cloudpickle  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from ...core.column import Array
from ...core.graph import Node, walk
from ...core.operator import Operator
from ...errors import CallSite
from .class_registry import number_of
from .importable import Importable
from .shared_memory import create_shared_file
from .unpicklable import unpicklable_error

_ALIGNMENT_BYTES = 64
_HEAD = struct.Struct("<QQQQ")
"""Start and end of the pickle, and of the table of buffers."""


def write_graph_file(content: object, root: Node) -> int:
    """The descriptor of a new file that holds `content`. The caller closes it.

    Args:
        content: the graph, and what else a worker needs.
        root: the graph, for error messages.

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
    mapping = _Mapping(fd, os.fstat(fd).st_size, access=mmap.ACCESS_COPY)
    mapping.fd = os.dup(fd)
    weakref.finalize(mapping, os.close, mapping.fd).atexit = False
    view = memoryview(mapping)
    start, stop, table_start, table_stop = _HEAD.unpack_from(view)
    places = view[table_start:table_stop].cast("Q").tolist()
    buffers = [view[begin:end] for begin, end in zip(places[::2], places[1::2], strict=True)]
    return cast("tuple[object, dict[type, int]]", pickle.loads(view[start:stop], buffers=buffers))


class _Mapping(mmap.mmap):
    """The mapped file, whose pages are shared until they are written to, and a descriptor to read it with."""

    fd: int

    def fileno(self) -> int:
        return self.fd


class _File:
    """The file that is written, and the places of the buffers in it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.places = array("Q")
        self.error: OSError | None = None
        self._end = _HEAD.size

    def keep(self, buffer: pickle.PickleBuffer) -> None:
        """Writes a buffer at once, so that a buffer that was made for pickling can be freed."""
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

    def close(self, *places: int) -> None:
        self._write(memoryview(_HEAD.pack(*places)), 0)

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
    file.close(*place, *file.write(memoryview(file.places).cast("B")))


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


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value what a fresh interpreter could not import.

    Attributes:
        classes: the classes that were pickled by value, with their numbers.
    """

    def __init__(self, stream: object, keep: Callable[[pickle.PickleBuffer], object]) -> None:
        super().__init__(stream, protocol=5, buffer_callback=keep)
        self.classes: dict[type, int] = {}
        self._importable = Importable()
        self._registered: list[ModuleType] = []
        self._tensor: Any = getattr(sys.modules.get("torch"), "Tensor", None)

    @contextmanager
    def by_value(self) -> Generator[None]:
        """Registers modules to be pickled by value as they appear, and unregisters them at the end."""
        with _registry:
            try:
                yield
            finally:
                for module in self._registered:
                    cloudpickle.unregister_pickle_by_value(module)
                self._registered.clear()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType, TypeVar)):
            self._register(obj.__module__)
        elif isinstance(obj, ModuleType):
            self._register(obj.__name__)
        elif isinstance(obj, Node):
            return _reduce_graph(obj)
        elif isinstance(obj, Operator):
            reduce = getattr(obj, "reduce_for_worker", None)
            return NotImplemented if reduce is None else reduce()
        elif type(obj) is self._tensor:
            return _reduce_tensor(obj)
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
        if module is None or name is None or self._importable(name) or sys.modules.get(module.__name__) is not module:
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


def _cache(function: Callable[..., object], parameters: dict[str, Any]) -> object:
    """Makes a function with a cache again, which `functools` itself pickles by name only."""
    return functools.lru_cache(**parameters)(function)


_FlatNode: TypeAlias = tuple[type[Node], Operator, list[int], CallSite | None]
"""Class, operator, numbers of the inputs, call site."""


def _reduce_graph(root: Node) -> tuple[object, ...]:
    """Reduces the graph to a list, inputs first: pickle would recurse along a chain until Python's stack is full."""
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
