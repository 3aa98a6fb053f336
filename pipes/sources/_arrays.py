"""Arrays as columns of a source: rows of them, what a state says of them, how they travel to another process."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, Union

import numpy as np

from ..core.cursor import Json
from ..core.rows import Array, Indices, Rows, read_only, take
from ..errors import SourceError


def rows_at(columns: Mapping[str, Array], length: int, indices: Indices) -> Rows:
    """The rows at `indices`: views where they are evenly spaced, else gathered when they are asked for."""
    if isinstance(indices, range):
        rows = take(Rows(columns, length), indices)
    else:
        rows = Rows.chosen(columns, indices)
    assert isinstance(rows, Rows)
    if all(column.dtype.isnative for column in columns.values()):
        return rows
    # Neither torch nor Arrow knows a foreign byte order.
    return Rows({name: _native(column) for name, column in rows.columns.items()}, len(rows))


def described(columns: Mapping[str, Array]) -> Json:
    """Names, dtypes and shapes."""
    return {name: [str(column.dtype), list(column.shape)] for name, column in columns.items()}


class Mapped(NamedTuple):
    """An array in a memory-mapped file, for another process to map as well."""

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
                f"{self.path} cannot be mapped in this process as it was in the first: {error}"
            ) from error


Packed: TypeAlias = Union["Mapped", "Array"]


def packed(array: Array) -> Packed:
    """`array` for pickling: a mapped file travels as its path, not as its content."""
    root: object = array
    while isinstance(root, np.ndarray) and not (isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap)):
        root = root.base
    # What was written into a copy-on-write map is in no file; structured types do not come back from their name.
    if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c" or min(array.strides) < 0:
        # Of others pickle makes a copy for each process.
        return array if array.flags.forc else np.ascontiguousarray(array)
    offset = root.offset + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return Mapped(str(root.filename), offset, array.dtype.str, array.shape, array.strides)


def unpacked(parts: Mapping[str, Packed]) -> dict[str, Array]:
    return {name: part.array() if isinstance(part, Mapped) else read_only(part) for name, part in parts.items()}


def _native(column: object) -> Array:
    array = np.asarray(column)
    return read_only(array.astype(array.dtype.newbyteorder("=")))
