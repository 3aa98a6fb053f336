"""Arrays as the columns of a source: their rows, their description in a state, and their way to another process."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Union

import numpy as np

from ..core.column import Array, read_only
from ..core.cursor import Json
from ..core.rows import Indices, Rows, take
from ..errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


def rows_at(columns: Mapping[str, Array], length: int, indices: Indices) -> Rows:
    """The rows at `indices`: views if these are evenly spaced, else gathered when they are read."""
    if isinstance(indices, range):
        rows = take(Rows(columns, length), indices)
    else:
        rows = Rows.selected(columns, indices)
    assert isinstance(rows, Rows)
    if all(column.dtype.isnative for column in columns.values()):
        return rows
    # Neither torch nor Arrow reads a foreign byte order.
    return Rows({name: _native(column) for name, column in rows.columns.items()}, len(rows))


def describe_columns(columns: Mapping[str, Array]) -> Json:
    """The names, dtypes and shapes, as plain JSON."""
    return {name: [str(column.dtype), list(column.shape)] for name, column in columns.items()}


def arrays_schema(heads: Mapping[str, tuple[np.dtype[np.generic], tuple[int, ...]]]) -> pa.Schema:
    """Names and types of the columns of arrays, given the dtype and the shape of each."""
    columns = {name: np.empty((0, *shape[1:]), dtype.newbyteorder("=")) for name, (dtype, shape) in heads.items()}
    return Rows(columns, 0).arrow.schema


class MappedArray(NamedTuple):
    """An array in a memory-mapped file, which another process maps as well."""

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> Array:
        try:
            whole = np.memmap(self.path, np.uint8, "r")
            return read_only(np.ndarray(self.shape, self.dtype, whole, self.offset, self.strides))
        except (OSError, ValueError, TypeError) as error:
            raise SourceError(
                f"{self.path} cannot be mapped in this process as in the one that made the pipe: {error}"
            ) from error


PickledArray: TypeAlias = Union["MappedArray", "Array"]


def pickled_array(array: Array) -> PickledArray:
    """Prepares an array for pickling: a mapped file travels as its path, not as its content."""
    root: object = array
    while isinstance(root, np.ndarray) and not (isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap)):
        root = root.base
    # Changes to a copy-on-write map are in no file. Structured dtypes do not come back from their name.
    if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c" or min(array.strides) < 0:
        # pickle copies other arrays for each process.
        return array if array.flags.forc else np.ascontiguousarray(array)
    offset = root.offset + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return MappedArray(str(root.filename), offset, array.dtype.str, array.shape, array.strides)


def unpickled_arrays(parts: Mapping[str, PickledArray]) -> dict[str, Array]:
    return {name: part.array() if isinstance(part, MappedArray) else read_only(part) for name, part in parts.items()}


def _native(column: object) -> Array:
    array = np.asarray(column)
    return read_only(array.astype(array.dtype.newbyteorder("=")))
