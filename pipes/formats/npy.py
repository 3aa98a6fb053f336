"""NumPy's own format of one array, `.npy`. Nothing in it is ever unpickled."""

from __future__ import annotations

import io
import math
from typing import NamedTuple, cast

import numpy as np

from ..core.rows import Array
from ..errors import DataError

HEAD = 2**14
"""Bytes in which the header of a file ends; NumPy itself refuses one of more than 10,000."""


class Npy(NamedTuple):
    """What a file says of itself.

    Attributes:
        dtype: as a string, which a state and another process can hold.
        shape: the lengths of all axes.
        fortran: whether the first axis, not the last, is the one whose items lie side by side.
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
        """Raises a `DataError` if a file of this header has not `size` bytes."""
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


def read_header(head: bytes, name: str, size: int) -> Npy:
    """The header of a file of `size` bytes, from its first ones.

    Raises:
        DataError: it is no such file, is damaged, truncated, or of Python objects or fields.
    """
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        # The third differs from the second in the names of fields only, which are refused.
        read = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except Exception as error:
        raise DataError(f"{name} is no .npy file, or its header is damaged: {error}") from error
    if dtype.hasobject:
        raise DataError(f"{name} holds Python objects, which would have to be unpickled; that may run any code")
    if dtype.fields is not None or dtype.subdtype is not None:
        raise DataError(f"{name} holds rows of fields, {dtype}; save an array for each field")
    header = Npy(dtype.str, shape, fortran, stream.tell())
    if min(shape, default=0) < 0:
        raise DataError(f"{name} is no .npy file, or its header is damaged: an axis has a negative length")
    header.check_size(name, size)
    return header


def decoded(data: bytes) -> Array:
    """The array in the bytes of a file, in memory of its own."""
    view = read_header(data[:HEAD], "it", len(data)).array(data)
    return view.astype(view.dtype.newbyteorder("="))
