"""NumPy's format for one array, `.npy`. Nothing in it is ever unpickled."""

from __future__ import annotations

import io
import math
from typing import NamedTuple, cast

import numpy as np

from ..core.rows import Array
from ..errors import DataError

HEADER_BYTES = 2**14
"""Bytes in which a header ends; NumPy itself refuses a header of more than 10,000."""


class ArrayHeader(NamedTuple):
    """The header of a file with one array.

    Attributes:
        dtype: as a string, which states and other processes can hold.
        shape: the lengths of all axes.
        fortran: whether the items along the first axis, not the last, are adjacent.
        begin: bytes before the first item.
    """

    dtype: str
    shape: tuple[int, ...]
    fortran: bool
    begin: int

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.begin + math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def check_size(self, name: str, size: int) -> None:
        """Raise a `DataError` unless `size` is the size of a file with this header."""
        if size != self.size:
            what = "is truncated" if size < self.size else "is longer than it says"
            lengths = " x ".join(map(str, self.shape)) or "one"
            raise DataError(
                f"{name} {what}: {lengths} items of {np.dtype(self.dtype)} make {self.size} bytes, and it has {size}"
            )

    def array(self, data: object) -> Array:
        """The array in the bytes of the whole file: a view of them."""
        flat = np.frombuffer(cast("bytes", data), self.dtype, math.prod(self.shape), self.begin)
        return flat.reshape(self.shape, order="F" if self.fortran else "C")


def read_header(head: bytes, name: str, size: int) -> ArrayHeader:
    """Read the header of a file of `size` bytes from its first bytes; a `DataError` if it cannot be trusted."""
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        # Version 3 differs from version 2 only in the names of fields, which are refused below.
        read = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except Exception as error:
        raise DataError(f"{name} is no .npy file, or its header is damaged: {error}") from error
    if dtype.hasobject:
        raise DataError(f"{name} holds Python objects, which would have to be unpickled; that may run any code")
    if dtype.fields is not None or dtype.subdtype is not None:
        raise DataError(f"{name} holds rows of fields, {dtype}; save an array for each field")
    if dtype.itemsize == 0 and math.prod(shape) > size:
        raise DataError(f"{name} is damaged: its header claims {math.prod(shape)} items that take no bytes")
    header = ArrayHeader(dtype.str, shape, fortran, stream.tell())
    if min(shape, default=0) < 0:
        raise DataError(f"{name} is no .npy file, or its header is damaged: an axis has a negative length")
    header.check_size(name, size)
    return header


def decode_npy(data: bytes) -> Array:
    """The array in the bytes of a file, in its own memory."""
    view = read_header(data[:HEADER_BYTES], "it", len(data)).array(data)
    return view.astype(view.dtype.newbyteorder("="))
