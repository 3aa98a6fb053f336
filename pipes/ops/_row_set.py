"""`RowSet`: some rows of an indexed input, as one bit for each row. `ChosenRows`: the operator that gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from ..core.block import Parted, parted
from ..core.context import Context
from ..core.operator import StageView
from ..core.rows import BlockRows, Indices, index_array, take
from ..core.skips import Skipped, SkippedRow
from ._shared import Rearranged

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


@dataclass(frozen=True, eq=False, repr=False)
class ChosenRows(Rearranged):
    """Gives some rows of an indexed input. `resolve` chooses them once, before the first row, by keys that it reads.

    Attributes:
        chosen: the positions of its rows in the input.
        without_key: those of them that were skipped when the keys were read. They stay skipped if they do not fail
            later, for their keys may be those of rows that were not chosen.
    """

    chosen: RowSet | None = field(default=None, kw_only=True, repr=False, compare=False)
    without_key: npt.NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, np.int64), kw_only=True, repr=False, compare=False
    )

    def with_rows(self, mask: npt.NDArray[np.bool_], without_key: npt.NDArray[np.int64]) -> Self:
        """This operator with the rows at which the mask is true; rows without a key may be others."""
        return replace(self, chosen=RowSet.of([mask]), without_key=without_key[mask[without_key]])

    @property
    def row_set(self) -> RowSet:
        assert self.chosen is not None, "`resolve` chooses the rows before a run"
        return self.chosen

    def length(self, stage: StageView) -> int | None:
        return len(self.row_set)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return self.row_set.positions(indices)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = super().rows(stage, indices, context)
        if not len(self.without_key):
            return rows
        parts = parted(rows)
        late = np.isin(index_array(self.places(stage, indices, context)), self.without_key)[parts.places]
        if not late.any():
            return rows
        mark = Skipped((SkippedRow(f".{self.call()}", "it failed when the keys were read, so its key is not known"),))
        places = np.array(parts.places, np.int64)
        values = take(parts.values, np.flatnonzero(~late))
        skipped = {**dict.fromkeys(places[late].tolist(), mark), **parts.skipped}
        return Parted(values, places[~late].tolist(), skipped, parts.total).merged(values)
