"""`TensorData`: an array that its consumer receives as a tensor. Its producer needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


class Stack:
    """Arrays of one shape and dtype, to be stacked along a new first axis directly in their target memory.

    Attributes:
        shape: of the stacked array.
        dtype: of the stacked array, in the byte order of this machine.
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
        """Stacks the arrays in `target`."""
        self._fill(np.ndarray(self.shape, self.dtype, target))

    def __array__(self, dtype: None = None, copy: None = None) -> npt.NDArray[np.generic]:
        """NumPy calls this; stacks the arrays in new memory."""
        stacked = np.empty(self.shape, self.dtype)
        self._fill(stacked)
        return stacked

    def _fill(self, target: npt.NDArray[np.generic]) -> None:
        if target.ndim == 1:
            target[...] = self._arrays
        else:
            # Concatenates along the existing axis: one copy of each, in C. `np.stack` would make a view of each first.
            np.concatenate(self._arrays, out=target.reshape(-1, *self.shape[2:]))


@dataclass(frozen=True, slots=True)
class TensorData:
    """A worker sends this in place of a tensor. Sending copies the values, so they must not change before."""

    array: npt.NDArray[np.generic] | Stack
