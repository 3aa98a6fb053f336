"""`RowSet`: some of the rows of an indexed input, as one bit for each row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..core.rows import Indices, index_array

_WORD = 64
"""The number of bits after which the rows so far are counted."""
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # of each byte
_ONES = _BITS.sum(1, dtype=np.uint8)  # in each byte
_PLACES = np.argsort(1 - _BITS, axis=1, kind="stable")  # of each one in a byte


class RowSet:
    """Positions in ascending order. `positions` finds those at any places among them; it costs two bits for each row.

    Attributes:
        bits: one for each row of the input, 64 of them in each row of the array.
    """

    def __init__(self, bits: npt.NDArray[np.uint8]) -> None:
        self.bits = bits
        # The number of rows of the set before each word.
        self._before = np.cumsum(np.append(0, _ONES[bits].sum(1, dtype=np.int64)))

    @staticmethod
    def of(masks: Iterable[npt.NDArray[np.bool_]]) -> RowSet:
        """The rows at which the masks, one after the other, are true; all but the last are multiples of 8 long."""
        packed = np.concatenate([np.zeros(0, np.uint8), *map(np.packbits, masks)])
        words = -(-len(packed) // (_WORD // 8))
        bits = np.zeros(words * (_WORD // 8), np.uint8)
        bits[: len(packed)] = packed
        return RowSet(bits.reshape(words, _WORD // 8))

    def __reduce__(self) -> tuple[object, ...]:
        return RowSet, (self.bits,)

    def __len__(self) -> int:
        return int(self._before[-1])

    def positions(self, indices: Indices) -> npt.NDArray[np.int64]:
        """The positions of the rows at `indices` of the set."""
        if isinstance(indices, range) and indices.step == 1 and indices:
            first = int(np.searchsorted(self._before, indices.start, side="right")) - 1
            last = int(np.searchsorted(self._before, indices.stop - 1, side="right"))
            rows = np.flatnonzero(np.unpackbits(self.bits[first:last])) + first * _WORD
            begin = indices.start - int(self._before[first])
            return rows[begin : begin + len(indices)]
        places = index_array(indices)
        words = np.searchsorted(self._before, places, side="right") - 1
        ranks = (places - self._before[words]).astype(np.uint8)  # among those of the word
        word_bytes = self.bits[words]
        ones = np.cumsum(_ONES[word_bytes], axis=1, dtype=np.uint8)
        byte = (ones > ranks[:, None]).argmax(1)
        each = np.arange(len(places))
        value = word_bytes[each, byte]
        bit = _PLACES[value, ranks - ones[each, byte] + _ONES[value]]
        return index_array(words * _WORD + byte * 8 + bit)
