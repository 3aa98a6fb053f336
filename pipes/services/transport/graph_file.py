"""How a graph goes to worker processes: pickled by value, once, into one file of memory that all of them map.

What the user's `__main__` defines travels by value, as does what lies in modules that no other process could import.
Arrays and Arrow buffers lie in the file as they are: the processes share them.
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
from typing import Any, TypeVar, cast

import cloudpickle  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from ...core.graph import Node, walk
from ...core.operator import Operator
from ...core.rows import Array
from ...errors import CallSite
from .class_registry import number_of
from .importable import Importable
from .shared_memory import shared_file
from .unpicklable import unpicklable

_ALIGNED = 64
_HEAD = struct.Struct("<QQQQ")
"""Where the pickle and the table of buffers begin and end."""


def write_parcel(content: object, root: Node) -> int:
    """The descriptor of a new file that holds `content`; the caller closes it.

    Args:
        content: the graph, and what else a worker needs.
        root: the graph, for the message of an error.

    Raises:
        ArgumentTypeError: something in `content` cannot be pickled.
        OSError: there is no room for the file.
    """
    file = _File(shared_file())
    try:
        try:
            _dump(content, file)
        except MemoryError:
            raise
        except Exception as error:
            if error is file.failed:
                raise
            raise unpicklable(content, root, error, _failure) from error
    except BaseException:
        os.close(file.fd)
        raise
    return file.fd


def read_parcel(fd: int) -> tuple[object, dict[type, int]]:
    """What `write_parcel` was given, and the number in that process of each class that came by value.

    The file is mapped, and arrays are views of it: a page takes memory of this process only when it is written to.
    """
    mapping = _Mapping(fd, os.fstat(fd).st_size, access=mmap.ACCESS_COPY)
    mapping.fd = os.dup(fd)
    weakref.finalize(mapping, os.close, mapping.fd).atexit = False
    view = memoryview(mapping)
    begin, end, table, table_end = _HEAD.unpack_from(view)
    places = view[table:table_end].cast("Q").tolist()
    buffers = [view[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True)]
    return cast("tuple[object, dict[type, int]]", pickle.loads(view[begin:end], buffers=buffers))


class _Mapping(mmap.mmap):
    """The file mapped, so that its pages are shared until one is written to; and its descriptor, to read it by."""

    fd: int

    def fileno(self) -> int:
        return self.fd


class _File:
    """What is written, one piece after another; the pieces that are buffers are noted."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.places = array("Q")
        self.failed: OSError | None = None
        self._end = _HEAD.size

    def keep(self, buffer: pickle.PickleBuffer) -> None:
        """Writes a buffer at once, so that one made for this need not be held."""
        with buffer.raw() as data:
            self.places.extend(self.write(data))

    def write(self, data: memoryview) -> tuple[int, int]:
        start = -(-self._end // _ALIGNED) * _ALIGNED
        self._end = start + data.nbytes
        try:
            self._write(data, start)
        except OSError as error:
            self.failed = error
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
        # Pickled in this order: by then, all classes in `content` have been met.
        pickler.dump((content, pickler.classes))
    with stream.getbuffer() as data:
        place = file.write(data)
    file.close(*place, *file.write(memoryview(file.places).cast("B")))


def _failure(value: object) -> Exception | None:
    """Why `value` alone cannot be sent."""
    pickler = _Pickler(_Nowhere(), lambda buffer: None)
    try:
        with pickler.by_value():
            pickler.dump(value)
    except Exception as error:
        return error
    return None


class _Nowhere:
    def write(self, data: object) -> int:
        return 0


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value what a fresh interpreter could not import.

    Attributes:
        classes: those pickled by value, with their numbers.
    """

    def __init__(self, stream: object, keep: Callable[[pickle.PickleBuffer], object]) -> None:
        super().__init__(stream, protocol=5, buffer_callback=keep)
        self.classes: dict[type, int] = {}
        self._importable = Importable()
        self._registered: list[ModuleType] = []
        self._tensor: Any = getattr(sys.modules.get("torch"), "Tensor", None)

    @contextmanager
    def by_value(self) -> Generator[None]:
        """While this lasts, cloudpickle's list of modules to be pickled by value grows as they are met."""
        with _registry:
            try:
                yield
            finally:
                for module in self._registered:
                    cloudpickle.unregister_pickle_by_value(module)
                self._registered.clear()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType, TypeVar)):
            self._look_for(obj.__module__)
        elif isinstance(obj, ModuleType):
            self._look_for(obj.__name__)
        elif isinstance(obj, Node):
            return _flat(obj)
        elif isinstance(obj, Operator):
            reduce = getattr(obj, "reduce_for_worker", None)
            return NotImplemented if reduce is None else reduce()
        elif type(obj) is self._tensor:
            return _reduce_tensor(obj)
        elif isinstance(obj, _CACHED) and not self._reachable(obj):
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        elif isinstance(obj, io.TextIOWrapper) and obj not in (sys.stdout, sys.stderr):
            # cloudpickle would send what is in the file.
            raise TypeError(f"cannot pickle '{type(obj).__name__}' object")
        made = super().reducer_override(obj)
        if isinstance(obj, type) and made is not NotImplemented and len(made) > 2:  # no state: one of Python's own
            self.classes[obj] = number_of(obj)
        return made

    def _look_for(self, name: str | None) -> None:
        module = sys.modules.get(name) if name else None
        if module is None or name is None or self._importable(name) or sys.modules.get(module.__name__) is not module:
            return
        if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(module)
            self._registered.append(module)

    def _reachable(self, obj: Any) -> bool:
        """Whether another process gets at `obj` by its name."""
        if not self._importable(obj.__module__):
            return False
        found: object = sys.modules[obj.__module__]
        for part in obj.__qualname__.split("."):
            found = getattr(found, part, None)
        return found is obj


_registry = RLock()
_CACHED = type(functools.lru_cache(lambda: None))


def _cached(function: Callable[..., object], parameters: dict[str, Any]) -> object:
    """A function with a cache, which `functools` itself pickles by name only."""
    return functools.lru_cache(**parameters)(function)


_Flat = tuple[type[Node], Operator, list[int], CallSite | None]


def _flat(root: Node) -> tuple[object, ...]:
    """The graph as a list, inputs first: pickle would go down a long chain until Python's stack is full."""
    numbers: dict[Node, int] = {}
    made: list[_Flat] = []
    for node in walk(root):
        numbers[node] = len(made)
        made.append((type(node), node.op, [numbers[child] for child in node.inputs], node.call_site))
    return _graph, (made,)


def _graph(flat: list[_Flat]) -> Node:
    nodes: list[Node] = []
    for kind, op, inputs, where in flat:
        nodes.append(kind(op, tuple(nodes[number] for number in inputs), where))
    return nodes[-1]


def _reduce_tensor(tensor: Any) -> Any:
    from ...torch.tensors import reducer

    return reducer(_place)(tensor)


def _place(values: Array) -> tuple[object, ...]:
    """The arguments with which `np.ndarray` makes the array again, its memory out of band."""
    if not values.flags.c_contiguous:
        values = values.copy("C")
    return values.shape, values.dtype.str, pickle.PickleBuffer(values.data)
