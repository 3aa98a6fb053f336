"""How an element crosses from its worker to the consumer: a small pickle stream, and its arrays in shared memory.

The stream says of each array, tensor and Arrow table where its bytes lie in which region of memory, and `unpack` makes
views of the regions. A large array has a region of its own, so that who keeps a label does not keep its image; small
ones share one. The rest is in the stream; a long one, with an image file in it, say, lies in a region too. So each byte
is copied once, by `Region.write`.
"""

from __future__ import annotations

import copyreg
import dataclasses
import io
import operator
import pickle
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import cloudpickle  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from ...core.rows import Array, Column, Rows
from ...core.tensor_data import Stack, TensorData
from ...errors import CallSite, DataError, with_call_site
from .class_registry import class_of
from .region import Region, in_stream

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import WriteableBuffer

    from .arrow_tables import ArrowStream

Place: TypeAlias = tuple[object, ...]
"""What a function of the consumer takes to make an array of a part of a region."""
Reduced: TypeAlias = str | tuple[object, ...]
Reducer: TypeAlias = Callable[[Any], Reduced]

LARGE = 1 << 20
"""Bytes from which on a part has a region of its own."""

_PROTOCOL = 5
_DEEPEST = 20  # steps on the way to what cannot be packed

# Letters for the usual dtypes in this machine's byte order: a dtype takes a pickler much longer.
_LETTERS = {np.dtype(letter): letter for letter in "?bBhHiIqQlLefdFD"}


class Packed(NamedTuple):
    """An element ready to leave.

    Attributes:
        stream: what `unpack` reads; never long.
        regions: the memory that it needs there, in the order in which the stream speaks of them.
    """

    stream: bytes
    regions: list[Region]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of the stream, and of each region."""
        return len(self.stream), *(region.nbytes for region in self.regions)


def unpack(stream: bytes | bytearray | memoryview, memories: Iterable[WriteableBuffer]) -> object:
    """The element; `memories` are the regions, each as it was written.

    Arrays and tensors are views of them, and keep those very objects alive.
    """
    return pickle.loads(stream, buffers=memories)


class Packer:
    """Packs the elements of one worker.

    What an element holds twice arrives as one object; two arrays over the same memory arrive as two.

    Args:
        classes: classes that the consumer sent here by value, each with the consumer's number for it.
        where: the line of the user's code that elements come from, for errors.
    """

    def __init__(self, classes: Mapping[type, int] = MappingProxyType({}), where: CallSite | None = None) -> None:
        self._classes = classes
        self._where = where
        self._reducers = _Reducers(self._reducer, copyreg.dispatch_table)
        self._reducers_by_value = _Reducers(self._reducer, cloudpickle.Pickler.dispatch_table)
        # Set by the first element with something that no name leads to. Those after it will mostly have the same, and
        # need not fail first.
        self._by_value = False
        self._begin()

    def pack(self, element: object) -> Packed:
        """The element's stream and regions; arrays are copied by `Region.write`, and must not change before.

        Raises:
            DataError: the element holds something that cannot leave its process.
        """
        try:
            if not self._by_value:
                try:
                    return self._packed(element)
                except (pickle.PicklingError, AttributeError, TypeError):
                    pass
            packed = self._packed_by_value(element)
        except MemoryError:
            raise
        except Exception as error:
            raise DataError(self._refusal(element, error)) from error
        self._by_value = True
        return packed

    def _packed(self, element: object) -> Packed:
        """By C alone, but for arrays and the like."""
        chunks = self._begin()
        pickler: Any = pickle.Pickler(chunks, _PROTOCOL, buffer_callback=in_stream)
        pickler.dispatch_table = self._reducers
        pickler.dump(element)
        return self._ended(chunks)

    def _packed_by_value(self, element: object) -> Packed:
        """With what no name leads to: some microseconds slower."""
        chunks = self._begin()
        _ByValue(chunks, self._classes, self._reducers_by_value).dump(element)
        return self._ended(chunks)

    def _begin(self) -> _Chunks:
        self._regions: list[Region] = []
        self._small: Region | None = None  # the one that small parts share
        return _Chunks()

    def _ended(self, chunks: _Chunks) -> Packed:
        regions = self._regions
        if len(chunks) > 1:
            # A pickler writes in pieces of 64 KiB, and a longer value by itself, uncopied. So the pieces are parts.
            pieces = [piece.raw() if isinstance(piece, pickle.PickleBuffer) else memoryview(piece) for piece in chunks]
            regions = [Region([*pieces], sum(map(len, pieces))), *regions]
            chunks = _Chunks()
            pickle.Pickler(chunks, _PROTOCOL, buffer_callback=in_stream).dump(_Elsewhere(regions))
        self._begin()
        return Packed(b"".join(chunks), regions)

    def _refusal(self, element: object, error: Exception) -> str:
        path, culprit = "element", element
        for _ in range(_DEEPEST):
            found = next(((step, part) for step, part in _parts_of(culprit) if self._refuses(part)), None)
            if found is None:
                break
            path, culprit = path + found[0], found[1]
        self._begin()
        cls = type(culprit)
        name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
        said = (
            f"an element cannot leave its worker: `{path}`, of type {name}, cannot be packed "
            f"({str(error) or type(error).__name__}); {_repair(culprit)}"
        )
        return said if self._where is None else with_call_site(said, self._where)

    def _refuses(self, part: object) -> bool:
        try:
            self._packed_by_value(part)
        except Exception:
            return True
        return False

    def _reducer(self, cls: type) -> Reducer | None:
        """What a pickler calls for objects of `cls`; None where that is up to `cls`."""
        if cls is np.ndarray or cls is np.memmap:
            return self._array
        if cls is TensorData:
            return self._tensor_data
        if cls is Rows:
            return _reduced_rows
        if cls is io.TextIOWrapper:
            return _by_itself  # an error; cloudpickle would send what is in the file
        if hasattr(cls, "__slots__") and any(base in self._classes for base in cls.__mro__):
            return _reduced_slots
        # Who has not imported them has none of their objects.
        torch, arrow = sys.modules.get("torch"), sys.modules.get("pyarrow")
        if torch and cls is getattr(torch, "Tensor", None):
            from ...torch import tensors

            return tensors.reducer(self._place)
        if arrow and issubclass(cls, (arrow.RecordBatch, arrow.Table, arrow.Array, arrow.ChunkedArray)):
            from . import arrow_tables as tables

            return tables.reducer(self._stream)
        return None

    def _array(self, array: Array) -> Reduced:
        if array.dtype.hasobject:
            return array.__reduce_ex__(_PROTOCOL)
        return np.ndarray, self._place(array)

    def _tensor_data(self, data: TensorData) -> Reduced:
        array = data.array
        if not (isinstance(array, Stack) or array.dtype.isnative):
            array = array.astype(array.dtype.newbyteorder("="))
        letter = _LETTERS.get(array.dtype)
        if letter is None:
            raise ValueError(f"torch has no dtype for {array.dtype}")
        if not array.nbytes:
            return _tensor_at, (array.shape, letter)
        region = self._region(array.nbytes)
        joinable = not isinstance(array, Stack) and array.flags.c_contiguous
        start = region.add(array, array.nbytes, joinable)
        return _tensor_at, (array.shape, letter, region, start)  # without strides: contiguous, as all that is collated

    def _place(self, array: Array) -> Place:
        """Makes a part of `array`; gives the arguments with which `np.ndarray` makes it again."""
        dtype: object = _LETTERS.get(array.dtype) or array.dtype
        size = array.nbytes
        if not size:
            return array.shape, dtype
        region = self._region(size)
        if array.flags.c_contiguous:
            return array.shape, dtype, region, region.add(array, size), None
        block, strides = _block(array)
        return array.shape, dtype, region, region.add(block, size, strides is not None), strides

    def _stream(self, stream: ArrowStream) -> Place:
        """Makes a part of `stream`; gives the arguments with which it is opened."""
        region = self._region(stream.nbytes)
        return region, region.add(stream, stream.nbytes, False), stream.nbytes

    def _region(self, size: int) -> Region:
        """Where a part of `size` bytes goes."""
        if size < LARGE and self._small is not None:
            return self._small
        region = Region([], 0)
        self._regions.append(region)  # as the pickler comes upon it next, this is the order of the stream
        if size < LARGE:
            self._small = region
        return region


class _Chunks(list[Any]):
    """The file that a pickler writes to."""

    write = list.append


class _Reducers(dict[type, Reducer]):
    """The table in which a pickler looks up the class of each object; filled as classes turn up."""

    def __init__(self, find: Callable[[type], Reducer | None], others: Mapping[type, Reducer]) -> None:
        super().__init__()
        self._find = find
        self._others = others

    def __missing__(self, cls: type) -> Reducer:
        if issubclass(cls, type):
            raise KeyError(cls)  # the object is itself a class, which goes by its name
        reducer = self[cls] = self._find(cls) or self._others.get(cls) or _by_itself
        return reducer


# What a pickler calls for a class that is in no table.
_by_itself: Reducer = operator.methodcaller("__reduce_ex__", _PROTOCOL)


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    """Sends the classes that the consumer knows as numbers, and by value what cannot be imported."""

    def __init__(self, chunks: _Chunks, classes: Mapping[type, int], reducers: _Reducers) -> None:
        self.dispatch_table: Any = reducers
        super().__init__(chunks, _PROTOCOL, buffer_callback=in_stream)
        self._classes = classes

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj in self._classes:
            return class_of, (self._classes[obj],)
        return super().reducer_override(obj)


class _Elsewhere:
    """Stands for what a stream in the first of some regions holds."""

    def __init__(self, regions: list[Region]) -> None:
        self._regions = regions

    def __reduce__(self) -> Reduced:
        return _unpacked, tuple(self._regions)


def _unpacked(stream: memoryview, *memories: memoryview) -> object:
    return unpack(stream, memories)


def _tensor_at(*place: object) -> object:
    # Not torch's own function, as for tensors: a worker need not have torch to send `TensorData`.
    return _maker()(*place)


@cache
def _maker() -> Callable[..., object]:
    from ...torch import tensors

    return tensors.tensor_at


def _reduced_slots(value: object) -> Reduced:
    # A class that came here by value has become one with a `__dict__`; the consumer's has its slots alone.
    reduced: Any = value.__reduce_ex__(_PROTOCOL)
    match reduced:
        case (make, arguments, (dict(attributes), dict()), *more) if not hasattr(value, "__setstate__"):
            return make, arguments, (None, attributes), *more
        case _:
            return reduced  # type: ignore[no-any-return]


def _reduced_rows(rows: Rows) -> Reduced:
    columns = rows.columns
    arrow = {name: column for name, column in columns.items() if not isinstance(column, np.ndarray)}
    if not arrow:
        return Rows, (dict(columns), len(rows))
    import pyarrow as pa

    # One stream for all of them, and a gap in the place of each.
    batch = pa.RecordBatch.from_arrays(list(arrow.values()), names=list(arrow))
    return _rows_at, ({name: None if name in arrow else column for name, column in columns.items()}, batch, len(rows))


def _rows_at(columns: dict[str, Column | None], batch: pa.RecordBatch, length: int) -> Rows:
    arrow = iter(batch.columns)
    return Rows({name: next(arrow) if column is None else column for name, column in columns.items()}, length)


def _block(array: Array) -> tuple[Array, Place | None]:
    """`array` without gaps, and the strides it has so; or as it is and None, where that takes a copy."""
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    block = array.transpose(axes)
    # Else only its axes are in another order: Fortran's, or channels last.
    return (block, array.strides) if block.flags.c_contiguous else (array, None)


def _repair(culprit: object) -> str:
    """What to return in its place."""
    if isinstance(culprit, io.IOBase):
        return "return what is in the file, or its path"
    if isinstance(culprit, Iterator):
        return "return a list of what it gives"
    return "keep such things out of elements"


def _parts_of(value: object) -> Iterator[tuple[str, object]]:
    """What an object holds, each part with the step that leads to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"[{reprlib.repr(key)}]", part
    elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        for at, part in enumerate(value):
            yield f"[{at}]", part
    elif not isinstance(value, type):
        names: Iterable[str] = getattr(value, "_fields", ()) or getattr(value, "__dict__", ())
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
        for name in names:
            yield f".{name}", getattr(value, name)
