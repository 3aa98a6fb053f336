"""How an element travels from its worker to the training process.

A class of the user's `__main__`, or one that was made inside a function, reaches a worker as a copy. A number travels
with the copy. An element names its class by that number, and the consumer finds its own class by it.

The bytes of arrays, tensors and Arrow tables go into regions. The stream says where they are, and `unpack` makes views
of the regions. A large array has a region of its own, so that keeping a label does not keep its image alive; small
arrays share a region. All else is in the stream. A long stream, such as one with an image file in it, goes into a
region too. So `Region.write` copies each byte once. Of elements that look alike, only one is pickled (`LayoutCache`).
"""

from __future__ import annotations

import copyreg
import io
import itertools
import operator
import pickle
import secrets
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, groupby, repeat
from operator import attrgetter
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import cloudpickle  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from ...core.lazy import pa
from ...core.rows import Array, Column, JaggedData, Rows, Stack, TensorData
from ...errors import CallSite, DataError, LoaderError, with_call_site
from .culprit import PickleError, find_culprit, named_type, path_of
from .memory import ALIGNMENT, Region, RegionPart, in_stream

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from .arrow_tables import BatchStream


Arguments: TypeAlias = tuple[object, ...]
"""The arguments with which a function of the consumer makes a view of a part of a region."""
Reduced: TypeAlias = str | tuple[object, ...]
Reducer: TypeAlias = Callable[[Any], Reduced]

MIN_OWN_REGION_BYTES = 1 << 20
"""A part of this size or more has a region of its own."""

_PROTOCOL = 5


class PackedElement(NamedTuple):
    """An element that is ready to travel: a short pickle stream, and the regions that it refers to, in that order."""

    stream: bytes
    regions: list[Region]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of the stream, and of each region."""
        return len(self.stream), *(region.nbytes for region in self.regions)

    def body(self) -> list[bytes | memoryview]:
        """The stream and the content of each region, to send the element without shared memory."""
        return [self.stream, *(region.content() for region in self.regions)]


def unpack(stream: bytes | bytearray | memoryview, memories: Iterable[WriteableBuffer]) -> object:
    """The element. Its arrays and tensors are views of `memories`, the written regions, and keep them alive."""
    if stream[0] == MARK[0]:
        (memory,) = memories
        return unpack_layout(bytes(stream), memory)
    return pickle.loads(stream, buffers=memories)


def unpack_body(body: memoryview | bytes, sizes: Sequence[int]) -> object:
    """The element whose body arrived in one piece; `sizes` are those of its `PackedElement`."""
    parts: list[memoryview | bytes] = []
    start = 0
    for size in sizes:
        parts.append(body[start : start + size])
        start += size
    stream, *regions = parts
    return unpack(stream, map(bytearray, regions))  # copies, because arrays need aligned memory


class Packer:
    """Packs the elements of one worker.

    An object that an element holds twice arrives as one object. Two arrays over the same memory arrive as two.
    `classes` are those that the consumer has sent here by value, each with the consumer's number for it; errors name
    the call site.
    """

    def __init__(self, classes: Mapping[type, int] = MappingProxyType({}), call_site: CallSite | None = None) -> None:
        self._classes = classes
        self._call_site = call_site
        self._layouts = LayoutCache()
        self._reducers = _Reducers(self._reducer, copyreg.dispatch_table)
        self._reducers_by_value = _Reducers(self._reducer, cloudpickle.Pickler.dispatch_table)
        # Set by the first element that holds something that cannot be imported. Later elements mostly do, too, and
        # need not fail first. A class may be of a module that must not be imported here, as the attempt would.
        self._by_value = any(cls.__module__ not in sys.modules for cls in classes)
        self._start()

    def pack(self, element: object) -> PackedElement:
        """The element's stream and regions. `Region.write` copies the arrays, which must not change before.

        Raises:
            DataError: the element holds something that cannot leave its process.
        """
        if (alike := self._layouts.pack(element)) is not None:
            stream, region = alike
            return PackedElement(stream, [region])
        try:
            if not self._by_value:
                try:
                    return self._pack_fast(element)
                except (pickle.PicklingError, AttributeError, TypeError):
                    pass
            packed = self._pack_by_value(element)
        except MemoryError:
            raise
        except Exception as error:
            message = describe_unpackable(element, error, self._pack_error, self._call_site)
            self._start()
            raise DataError(message) from error
        self._by_value = True
        return packed

    def _pack_fast(self, element: object) -> PackedElement:
        """Pack with the pickler in C, which calls Python only for arrays, tensors and tables."""
        chunks = self._start()
        pickler: Any = pickle.Pickler(chunks, _PROTOCOL, buffer_callback=in_stream)
        pickler.dispatch_table = self._reducers
        pickler.dump(element)
        return self._finish(chunks)

    def _pack_by_value(self, element: object) -> PackedElement:
        """Pack also what cannot be imported, which takes some microseconds more."""
        chunks = self._start()
        _ByValue(chunks, self._classes, self._reducers_by_value).dump(element)
        return self._finish(chunks)

    def _start(self) -> _Chunks:
        self._regions: list[Region] = []
        self._small: Region | None = None  # the one that small parts share
        return _Chunks()

    def _finish(self, chunks: _Chunks) -> PackedElement:
        regions = self._regions
        if len(chunks) > 1:
            # A pickler writes pieces of 64 KiB, and a longer value as a piece of its own, without a copy.
            pieces = [piece.raw() if isinstance(piece, pickle.PickleBuffer) else memoryview(piece) for piece in chunks]
            regions = [Region([*pieces], sum(map(len, pieces))), *regions]
            chunks = _Chunks()
            pickle.Pickler(chunks, _PROTOCOL, buffer_callback=in_stream).dump(_RegionStream(regions))
        self._start()
        return PackedElement(b"".join(chunks), regions)

    def _pack_error(self, part: object) -> Exception | None:
        try:
            self._pack_by_value(part)
        except Exception as error:
            return error
        return None

    def _reducer(self, cls: type) -> Reducer | None:
        """The function with which a pickler reduces objects of `cls`; None if `cls` itself decides."""
        if cls is np.ndarray or cls is np.memmap:
            return self._reduce_array
        if cls is TensorData:
            return self._reduce_tensor_data
        if cls is Stack:
            return self._reduce_stack
        if cls is JaggedData:
            return _reduce_jagged_data
        if cls is Rows:
            return _reduce_rows
        if cls is io.TextIOWrapper:
            return _default_reducer  # fails; cloudpickle would send the content of the file
        if hasattr(cls, "__slots__") and any(base in self._classes for base in cls.__mro__):
            return _reduce_slots
        # A process that has not imported them has none of their objects.
        torch, arrow = sys.modules.get("torch"), sys.modules.get("pyarrow")
        if torch and issubclass(cls, getattr(torch, "Tensor", ())):
            from ...torch import tensors

            return tensors.reducer(self._add_array) if cls is torch.Tensor else tensors.subclass_reducer(nested_of)
        if arrow and issubclass(cls, (arrow.RecordBatch, arrow.Table, arrow.Array, arrow.ChunkedArray)):
            from . import arrow_tables

            return arrow_tables.reducer(self._add_stream)
        if arrow and cls is arrow.MonthDayNano:
            return reduce_interval
        return None

    def _reduce_stack(self, stack: Stack) -> Reduced:
        dtype: object = DTYPE_LETTERS.get(stack.dtype) or stack.dtype
        if not stack.nbytes:
            return np.ndarray, (stack.shape, dtype)
        region = self._region(stack.nbytes)
        return np.ndarray, (stack.shape, dtype, region, region.add(stack, stack.nbytes, False))

    def _reduce_array(self, array: Array) -> Reduced:
        if array.dtype.hasobject:
            return array.__reduce_ex__(_PROTOCOL)
        return np.ndarray, self._add_array(array)

    def _reduce_tensor_data(self, data: TensorData) -> Reduced:
        array = data.array
        if not (isinstance(array, Stack) or array.dtype.isnative):
            array = array.astype(array.dtype.newbyteorder("="))
        letter = DTYPE_LETTERS.get(array.dtype)
        if letter is None:
            raise ValueError(f"torch has no dtype for {array.dtype}")
        if not array.nbytes:
            return _tensor_at, (array.shape, letter)
        region = self._region(array.nbytes)
        joinable = not isinstance(array, Stack) and array.flags.c_contiguous
        start = region.add(array, array.nbytes, joinable)
        return _tensor_at, (array.shape, letter, region, start)  # no strides: it becomes contiguous

    def _add_array(self, array: Array) -> Arguments:
        """Add `array` to a region; return the arguments with which `np.ndarray` makes a view of it."""
        dtype: object = DTYPE_LETTERS.get(array.dtype) or array.dtype
        size = array.nbytes
        if not size:
            return array.shape, dtype
        region = self._region(size)
        if array.flags.c_contiguous:
            return array.shape, dtype, region, region.add(array, size), None
        block, strides = _block(array)
        return array.shape, dtype, region, region.add(block, size, strides is not None), strides

    def _add_stream(self, stream: BatchStream) -> Arguments:
        """Add `stream` to a region; return the arguments with which it is opened."""
        region = self._region(stream.nbytes)
        return region, region.add(stream, stream.nbytes, False), stream.nbytes

    def _region(self, size: int) -> Region:
        """The region for a part of `size` bytes."""
        if size < MIN_OWN_REGION_BYTES and self._small is not None:
            return self._small
        region = Region([], 0)
        self._regions.append(region)  # the pickler meets it next, so this is the order of the stream
        if size < MIN_OWN_REGION_BYTES:
            self._small = region
        return region


class _Chunks(list[Any]):
    """The file that a pickler writes to."""

    write = list.append


class _Reducers(dict[type, Reducer]):
    """The table in which a pickler looks up the class of each object. It fills as classes appear."""

    def __init__(self, find: Callable[[type], Reducer | None], others: Mapping[type, Reducer]) -> None:
        super().__init__()
        self._find = find
        self._others = others

    def __missing__(self, cls: type) -> Reducer:
        if issubclass(cls, type):
            raise KeyError(cls)  # the object is itself a class, which is pickled by name
        reducer = self[cls] = self._find(cls) or self._others.get(cls) or _default_reducer
        return reducer


# What a pickler does with a class that is in no table.
_default_reducer: Reducer = operator.methodcaller("__reduce_ex__", _PROTOCOL)


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    """Sends classes that the consumer knows as numbers, and what cannot be imported by value."""

    def __init__(self, chunks: _Chunks, classes: Mapping[type, int], reducers: _Reducers) -> None:
        self.dispatch_table: Any = reducers
        super().__init__(chunks, _PROTOCOL, buffer_callback=in_stream)
        self._classes = classes

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj in self._classes:
            return class_of, (self._classes[obj],)
        return super().reducer_override(obj)


class _RegionStream:
    """Stands in a short stream for the long stream in the first of `regions`."""

    def __init__(self, regions: list[Region]) -> None:
        self._regions = regions

    def __reduce__(self) -> Reduced:
        return _unpack_regions, tuple(self._regions)


def _unpack_regions(stream: memoryview, *memories: memoryview) -> object:
    return pickle.loads(stream, buffers=memories)


def _tensor_at(*arguments: object) -> object:
    # A function of this module, so that a worker can send `TensorData` without torch.
    return _tensor_maker()(*arguments)


@cache
def _tensor_maker() -> Callable[..., object]:
    from ...torch import tensors

    return tensors.tensor_at


def reduce_interval(interval: tuple[int, ...]) -> Reduced:
    """The reduction of Arrow's `MonthDayNano`: the name of that class leads to no module, and C defines it."""
    return _interval, tuple(interval)


def _interval(*parts: int) -> object:
    return cast("Any", pa.MonthDayNano)(parts)


def _reduce_jagged_data(data: JaggedData) -> Reduced:
    return nested_of, (TensorData(data.values), TensorData(data.offsets))


def nested_of(values: object, offsets: object) -> object:
    """The nested tensor of these tensors. A worker can send it without torch, because this module has the function."""
    from ...torch import tensors

    return tensors.nested_of(cast("Any", values), cast("Any", offsets))


def _reduce_slots(value: object) -> Reduced:
    # The copy of a class that travelled by value has a `__dict__`; the consumer's class has only its slots.
    reduced: Any = value.__reduce_ex__(_PROTOCOL)
    match reduced:
        case (make, arguments, (dict(attributes), dict()), *more) if not hasattr(value, "__setstate__"):
            return make, arguments, (None, attributes), *more
        case _:
            return reduced  # type: ignore[no-any-return]


def _reduce_rows(rows: Rows) -> Reduced:
    columns = rows.columns
    arrow = {name: column for name, column in columns.items() if not isinstance(column, np.ndarray)}
    if not arrow:
        return Rows, (dict(columns), len(rows))
    # All Arrow columns travel in one stream, and None takes the place of each.
    batch = pa.RecordBatch.from_arrays(list(arrow.values()), names=list(arrow))
    return _make_rows, ({name: None if name in arrow else column for name, column in columns.items()}, batch, len(rows))


def _make_rows(columns: dict[str, Column | None], batch: pa.RecordBatch, length: int) -> Rows:
    arrow = iter(batch.columns)
    return Rows({name: next(arrow) if column is None else column for name, column in columns.items()}, length)


def _block(array: Array) -> tuple[Array, Arguments | None]:
    """The transpose of `array` that is contiguous, and the strides to undo it; or `array` and None if there is none."""
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    block = array.transpose(axes)
    # Fortran's order and "channels last", for example, are contiguous apart from the order of axes.
    return (block, array.strides) if block.flags.c_contiguous else (array, None)


# Classes that travel by value. They have numbers, so that elements come back as instances of the very same class.


_lock = Lock()
_count = itertools.count(secrets.randbits(48))  # unlike the numbers of other processes, which this one may adopt
_classes: WeakValueDictionary[int, type] = WeakValueDictionary()
_numbers: WeakKeyDictionary[type, int] = WeakKeyDictionary()


def number_of(cls: type) -> int:
    """The number of `cls`, the same for as long as this process has the class."""
    with _lock:
        number = _numbers.get(cls)
        if number is None:
            number = _numbers[cls] = next(_count)
            _classes[number] = cls
        return number


def class_of(number: int) -> type:
    """The class with that number.

    Raises:
        LoaderError: this process has given out no such number, or has dropped the class since.
    """
    cls = _classes.get(number)
    if cls is None:
        raise LoaderError(f"an element is of class number {number}, which this process does not hold any more")
    return cls


def adopt(classes: Mapping[type, int]) -> None:
    """Register classes that another process has sent, under the numbers of that process."""
    with _lock:
        _numbers.update(classes)
        _classes.update({number: cls for cls, number in classes.items()})


# Layouts. Of elements that look alike, only the first is pickled.


MARK = b"L"
"""A stream that begins with it is that of a layout; a pickle stream begins with another byte."""

DTYPE_LETTERS = {np.dtype(letter): letter for letter in "?bBhHiIqQlLefdFD"}
"""Letters for the usual dtypes in the byte order of this machine: pickling a dtype takes much longer."""

MAX_LAYOUTS = 64
MAX_LAYOUT_BYTES = 1 << 20
"""The bytes of an element: to pickle what lies around more bytes takes less than to copy them."""

_array_at: Callable[..., Array] = np.ndarray

# Called for all arrays of an element, because a loop or a function in Python takes longer than what it does here.
_is_contiguous = attrgetter("flags.c_contiguous")
_dtype_and_shape = attrgetter("dtype", "shape")
_Reader: TypeAlias = Callable[[Sequence[Any]], Iterable[object]]
"""From values of one type to their memory as arrays; fewer arrays if a value is more than that."""
_ONE = object  # the container of an element that is itself an array


class Layout(NamedTuple):
    """What elements have in common, to make one of its bytes: shape, dtype and place in the region of each value.

    The container is `object` if the element is itself an array.
    """

    container: type
    keys: tuple[str, ...]
    tensors: tuple[bool, ...]
    shapes: tuple[tuple[int, ...], ...]
    letters: tuple[str, ...]
    offsets: tuple[int, ...]

    def element(self, memory: WriteableBuffer) -> object:
        """The element whose region is `memory`, with views of it."""
        values: Iterable[object] = map(_array_at, self.shapes, self.letters, repeat(memory), self.offsets)
        if all(self.tensors):
            values = map(_from_numpy(), values)
        elif any(self.tensors):
            to_tensor = _from_numpy()
            values = [to_tensor(value) if tensor else value for value, tensor in zip(values, self.tensors, strict=True)]
        if self.container is dict:
            return dict(zip(self.keys, values, strict=True))
        if self.container is _ONE:
            return next(iter(values))
        return self.container(values)


def unpack_layout(stream: bytes, memory: WriteableBuffer) -> object:
    """The element of a layout's stream, with views of its region."""
    return _layout(stream).element(memory)


@lru_cache(MAX_LAYOUTS)
def _layout(stream: bytes) -> Layout:
    layout = pickle.loads(memoryview(stream)[len(MARK) :])
    assert isinstance(layout, Layout), "a stream with this mark is that of a layout"
    return layout


class LayoutCache:
    """The layouts of the elements of one packer.

    It serves a dict with strings as keys, a list or a tuple of different arrays and tensors, and a single one. All else
    is left to a pickler. So are elements if hardly any two of them look alike. Small elements take half the CPU time:
    two tensors of 64 rows are packed and unpacked in 31 us, not 50, and 26 of them in 133 us, not 254.
    """

    def __init__(self) -> None:
        self._streams: dict[Hashable, tuple[bytes, list[bytes], int]] = {}
        self._readers: dict[type, _Reader] = {np.ndarray: iter, TensorData: _arrays_of}
        self._misses_left = MAX_LAYOUTS

    def pack(self, element: object) -> tuple[bytes, Region] | None:
        """Stream and region of the element; None if a pickler has to pack it."""
        if not self._misses_left:
            return None
        container = type(element)
        keys: Sequence[object] = ()
        values: Sequence[object]
        if isinstance(element, dict) and container is dict:
            keys, values = tuple(element), tuple(element.values())
        elif isinstance(element, (list, tuple)) and (container is list or container is tuple):
            values = element
        else:
            container, values = _ONE, (element,)
        arrays = self._arrays(values)
        if arrays is None:
            self._misses_left -= 1
            return None
        key = container, keys, *map(type, keys), *map(type, values), *map(_dtype_and_shape, arrays)
        entry = self._streams.get(key)
        if entry is None:
            self._misses_left -= 1
            entry = self._add(key, container, keys, values, arrays)
            if entry is None:
                return None
        else:
            self._misses_left = MAX_LAYOUTS
        stream, gaps, nbytes = entry
        parts: Iterable[RegionPart] = arrays
        if gaps:
            parts = chain.from_iterable(zip(arrays, gaps, strict=True))
        return stream, Region([*parts], nbytes)

    def _arrays(self, values: Sequence[object]) -> list[Array] | None:
        """The memory of each value as an array; None if one of them is something else."""
        types = {*map(type, values)}
        if not types <= self._readers.keys() and not self._know(types):
            return None
        if len({*map(id, values)}) < len(values):
            return None  # an object that an element holds twice arrives as one object
        if len(types) == 1:
            arrays = [*self._readers[types.pop()](values)]
        else:
            groups = [self._readers[kind](tuple(group)) for kind, group in groupby(values, type)]
            arrays = [*chain.from_iterable(groups)]
        are_arrays = all(issubclass(kind, np.ndarray) for kind in {*map(type, arrays)})
        if not are_arrays or not all(map(_is_contiguous, arrays)):
            return None
        return cast("list[Array]", arrays) if arrays and len(arrays) == len(values) else None

    def _know(self, types: set[type]) -> bool:
        """Whether all of `types` can be read. A process that has not imported torch has no tensors."""
        torch = sys.modules.get("torch")
        if torch is not None and (tensor := getattr(torch, "Tensor", None)) in types:
            from ...torch.tensors import plain_arrays

            self._readers[tensor] = plain_arrays
        return types <= self._readers.keys()

    def _add(
        self, key: Hashable, container: type, keys: Sequence[object], values: Sequence[object], arrays: list[Array]
    ) -> tuple[bytes, list[bytes], int] | None:
        """Make a layout; None if there are too many, if it would not pay, or if the arrays are not as usual."""
        if len(self._streams) == MAX_LAYOUTS:
            return None
        letters = [DTYPE_LETTERS.get(array.dtype) for array in arrays]
        names = [name for name in keys if type(name) is str]
        ends = np.cumsum([-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in arrays]).tolist()
        all_have_bytes = all(array.size for array in arrays)
        if None in letters or not all_have_bytes or len(names) < len(keys) or ends[-1] > MAX_LAYOUT_BYTES:
            return None
        tensors = tuple(type(value) is not np.ndarray for value in values)
        shapes = tuple(array.shape for array in arrays)
        layout = Layout(container, tuple(names), tensors, shapes, tuple(map(str, letters)), (0, *ends[:-1]))
        gaps = [bytes(-array.nbytes % ALIGNMENT) for array in arrays]
        if not any(gaps):
            gaps = []
        entry = self._streams[key] = MARK + pickle.dumps(layout, 5), gaps, ends[-1]
        return entry


def _arrays_of(data: Iterable[TensorData]) -> Iterable[object]:
    return [each.array for each in data]


@lru_cache(1)
def _from_numpy() -> Callable[[Any], object]:
    from ...torch import tensors  # here, so that a worker can send `TensorData` without torch

    return tensors.from_numpy


# Errors of what cannot leave its worker: the part of the element, and the repair.


def describe_unpackable(element: object, error: Exception, pack_error: PickleError, call_site: CallSite | None) -> str:
    """The message for an element that could not be packed because of `error`."""
    steps, culprit, _ = find_culprit(element, error, pack_error)
    path = path_of(["element", *steps])
    message = (
        f"an element cannot leave its worker: `{path}`, {named_type(culprit)}, cannot be packed "
        f"({str(error) or type(error).__name__}); {_repair(culprit)}"
    )
    return message if call_site is None else with_call_site(message, call_site)


def _repair(culprit: object) -> str:
    """What to return instead."""
    if isinstance(culprit, io.IOBase):
        return "return what is in the file, or its path"
    if isinstance(culprit, Iterator):
        return "return a list of what it gives"
    return "keep such things out of elements"
