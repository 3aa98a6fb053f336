"""`TensorData`: an array that its consumer gets as a tensor, so that who makes it needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


class Stack:
    """Arrays of one shape and dtype, of which one is made, with one more axis at the front, where it is to lie.

    Attributes:
        shape: of that one.
        dtype: of that one, in the byte order of this machine.
    """

    __slots__ = ("_arrays", "dtype", "shape")

    def __init__(self, arrays: Sequence[npt.NDArray[np.generic]]) -> None:
        self._arrays = arrays
        self.dtype = arrays[0].dtype.newbyteorder("=")
        self.shape = len(arrays), *arrays[0].shape

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    def write(self, target: memoryview) -> None:
        """Makes it in `target`."""
        self._fill(np.ndarray(self.shape, self.dtype, target))

    def __array__(self, dtype: None = None, copy: None = None) -> npt.NDArray[np.generic]:
        """What NumPy calls to make it in memory of its own."""
        made = np.empty(self.shape, self.dtype)
        self._fill(made)
        return made

    def _fill(self, target: npt.NDArray[np.generic]) -> None:
        if target.ndim == 1:
            target[...] = self._arrays
        else:
            # Joined along the axis they have: one copy of each, in C. `np.stack` makes a view of each first.
            np.concatenate(self._arrays, out=target.reshape(-1, *self.shape[2:]))


@dataclass(frozen=True, slots=True)
class TensorData:
    """What a worker sends in place of a tensor: its values. They are copied on their way, and must stay till then."""

    array: npt.NDArray[np.generic] | Stack
