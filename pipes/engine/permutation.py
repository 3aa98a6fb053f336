"""Keyed permutations of [0, n): drawn as a whole if n is small, else computed position by position."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..core.randomness import Key, generator, mixed
from ..core.rows import Indices, index_array

MAX_DRAWN_LENGTH = 2**20  # takes 20 ms; a longer draw takes each process longer than computing its part

_ROUNDS = 4


class Permutation:
    """A permutation of [0, `length`) that depends on nothing but `key`; `permutation[indices]` are its values."""

    def __init__(self, key: Key, length: int, max_drawn_length: int = MAX_DRAWN_LENGTH) -> None:
        self._length = length
        self._order: npt.NDArray[np.int32] | None = None
        if length <= max_drawn_length:
            self._order = generator(key).permutation(np.arange(length, dtype=np.int32))
        else:
            self._keys = generator(key).integers(2**64, size=_ROUNDS, dtype=np.uint64)
            bits = max(2, int(length - 1).bit_length())
            self._widths = bits - bits // 2, bits // 2  # of the left and the right half, in bits

    def __getitem__(self, indices: Indices) -> npt.NDArray[np.int64]:
        if self._order is not None:
            places = slice(indices.start, indices.stop, indices.step) if isinstance(indices, range) else indices
            return self._order[places].astype(np.int64)
        values = index_array(indices).astype(np.uint64)
        values = self._encrypt(values)
        # Cycle walking: values outside [0, n) are encrypted again until they fall inside.
        outside = np.flatnonzero(values >= self._length)
        while len(outside):
            again = self._encrypt(values[outside])
            values[outside] = again
            outside = outside[again >= self._length]
        return values.astype(np.int64)

    def _encrypt(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        wide, narrow = self._widths
        left, right = values >> np.uint64(narrow), values & np.uint64((1 << narrow) - 1)
        for key in self._keys:
            left, right = right, left ^ (mixed(right + key) & np.uint64((1 << wide) - 1))
            wide, narrow = narrow, wide
        return (left << np.uint64(narrow)) | right
