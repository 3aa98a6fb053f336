"""Elements of the same keys, dtypes and shapes: one of them is pickled, and of the others only the bytes travel."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from ...core.column import Array
from ...core.tensor_data import TensorData
from .region import ALIGNMENT, Region, RegionPart

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
_size = attrgetter("size")
_dtype_and_shape = attrgetter("dtype", "shape")
_Reader: TypeAlias = Callable[[Sequence[Any]], Iterable[object]]
"""From values of one type to their memory as arrays; fewer arrays if a value is more than that."""
_ONE = object  # stands for the container of an element that is itself an array


class Layout(NamedTuple):
    """What elements have in common, to make one of its bytes.

    Attributes:
        container: dict, list or tuple; `object` if the element is itself an array.
        keys: of a dict.
        tensors: for each value, whether it is a tensor or an array.
        shapes, letters, offsets: of each value: shape, dtype, place in the region.
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
    is left to a pickler. So are elements if hardly any two of them look alike.
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
        groups = [self._readers[kind](tuple(group)) for kind, group in groupby(values, type)]
        arrays = [*chain.from_iterable(groups)]
        are_arrays = all(issubclass(kind, np.ndarray) for kind in {*map(type, arrays)})
        if not are_arrays or not all(map(_is_contiguous, arrays)) or not all(map(_size, arrays)):
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
        """Makes a layout; None if there are too many, if it would not pay, or if the arrays are not as usual."""
        if len(self._streams) == MAX_LAYOUTS:
            return None
        letters = [DTYPE_LETTERS.get(array.dtype) for array in arrays]
        names = [name for name in keys if type(name) is str]
        ends = np.cumsum([-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in arrays]).tolist()
        if None in letters or len(names) < len(keys) or ends[-1] > MAX_LAYOUT_BYTES:
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
