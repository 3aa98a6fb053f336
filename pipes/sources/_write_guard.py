"""Notices that somebody wrote into arrays whose rows a source gave out as views."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..core.column import Array
from ..core.rows import Indices
from ..errors import CallSite, DataError, with_call_site

SAMPLED_VALUES = 8
"""Values of a row that are compared, in each array."""


class WriteGuard:
    """Keeps a few values of the rows given out last, and compares them before the next rows are given out.

    Rows are read-only, but `torch.from_numpy` makes a tensor of any array, and writes through it reach the source.
    Giving out copies would double the cost of small images; this costs about a microsecond for each block and array.
    """

    def __init__(self, arrays: Iterable[Array]) -> None:
        self._arrays = [(array, _places(array)) for array in arrays]
        self._last: tuple[int, list[bytes]] | None = None

    def check(self, indices: Indices, call_site: CallSite | None) -> None:
        """Compares the last sample with the arrays, and takes one of the rows at `indices` if these will be views.

        Raises:
            DataError: the values differ.
        """
        last = self._last
        if last is not None and self._sample(last[0]) != last[1]:
            raise DataError(
                with_call_site(
                    f"the arrays of `from_arrays` have changed while the pipe reads them: row {last[0] + 1} has other "
                    "values than before. A tensor that `torch.from_numpy` makes of a row shares the memory of the "
                    'array; make a copy with `torch.tensor(row["x"])` before you write into it, and make a new pipe '
                    "if you change the arrays yourself",
                    call_site,
                )
            )
        views = isinstance(indices, range) and len(indices) > 0
        self._last = (int(indices[0]), self._sample(int(indices[0]))) if views else None

    def _sample(self, row: int) -> list[bytes]:
        return [array[row : row + 1].take(places).tobytes() for array, places in self._arrays]


def _places(array: Array) -> npt.NDArray[np.int64]:
    """Some of the values of one row, spread over it."""
    size = math.prod(array.shape[1:])
    return np.unique(np.linspace(0, size - 1, SAMPLED_VALUES, dtype=np.int64)) if size else np.empty(0, np.int64)
