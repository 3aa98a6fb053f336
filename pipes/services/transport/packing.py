"""How an element travels from its worker to the consumer: as a small pickle stream and regions of memory.

The bytes of arrays, tensors and Arrow tables go into regions. The stream says where they are, and `unpack` makes views
of the regions. A large array has a region of its own, so that keeping a label does not keep its image alive; small
arrays share a region. All else is in the stream. A long stream, such as one with an image file in it, goes into a
region too. So `Region.write` copies each byte once. Of elements that look alike, only one is pickled (`layouts.py`).
"""

from __future__ import annotations

import copyreg
import io
import operator
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import cloudpickle  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from ...core.column import Array, Column
from ...core.rows import Rows
from ...core.tensor_data import Stack, TensorData
from ...errors import CallSite, DataError
from .class_registry import class_of
from .layouts import DTYPE_LETTERS, MARK, LayoutCache, unpack_layout
from .region import Region, in_stream
from .unpackable import describe_unpackable

if TYPE_CHECKING:
    import pyarrow as pa
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
    """An element that is ready to travel.

    Attributes:
        stream: a short pickle stream, which `unpack` reads.
        regions: the memory that the stream refers to, in the order in which it does.
    """

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
    """The element.

    Args:
        stream: of its `PackedElement`.
        memories: the written regions. Arrays and tensors are views of these objects, and keep them alive.
    """
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

    Args:
        classes: classes that the consumer has sent here by value, each with the consumer's number for it.
        call_site: the line of the user's code that elements come from, for errors.
    """

    def __init__(self, classes: Mapping[type, int] = MappingProxyType({}), call_site: CallSite | None = None) -> None:
        self._classes = classes
        self._call_site = call_site
        self._layouts = LayoutCache()
        self._reducers = _Reducers(self._reducer, copyreg.dispatch_table)
        self._reducers_by_value = _Reducers(self._reducer, cloudpickle.Pickler.dispatch_table)
        # Set by the first element that holds something that cannot be imported. Later elements mostly do, too, and
        # need not fail first.
        self._by_value = False
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
            message = describe_unpackable(element, error, self._can_pack, self._call_site)
            self._start()
            raise DataError(message) from error
        self._by_value = True
        return packed

    def _pack_fast(self, element: object) -> PackedElement:
        """Packs with the pickler in C, which calls Python only for arrays, tensors and tables."""
        chunks = self._start()
        pickler: Any = pickle.Pickler(chunks, _PROTOCOL, buffer_callback=in_stream)
        pickler.dispatch_table = self._reducers
        pickler.dump(element)
        return self._finish(chunks)

    def _pack_by_value(self, element: object) -> PackedElement:
        """Packs also what cannot be imported; takes some microseconds more."""
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

    def _can_pack(self, part: object) -> bool:
        try:
            self._pack_by_value(part)
        except Exception:
            return False
        return True

    def _reducer(self, cls: type) -> Reducer | None:
        """The function with which a pickler reduces objects of `cls`; None if `cls` itself decides."""
        if cls is np.ndarray or cls is np.memmap:
            return self._reduce_array
        if cls is TensorData:
            return self._reduce_tensor_data
        if cls is Rows:
            return _reduce_rows
        if cls is io.TextIOWrapper:
            return _default_reducer  # fails; cloudpickle would send the content of the file
        if hasattr(cls, "__slots__") and any(base in self._classes for base in cls.__mro__):
            return _reduce_slots
        # A process that has not imported them has none of their objects.
        torch, arrow = sys.modules.get("torch"), sys.modules.get("pyarrow")
        if torch and cls is getattr(torch, "Tensor", None):
            from ...torch import tensors

            return tensors.reducer(self._add_array)
        if arrow and issubclass(cls, (arrow.RecordBatch, arrow.Table, arrow.Array, arrow.ChunkedArray)):
            from . import arrow_tables

            return arrow_tables.reducer(self._add_stream)
        return None

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
        """Adds `array` to a region; returns the arguments with which `np.ndarray` makes a view of it."""
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
        """Adds `stream` to a region; returns the arguments with which it is opened."""
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
    import pyarrow as pa

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
