"""`take_joined`: rows of several parts, gathered without joining the parts as a whole."""

# pyright: reportPrivateUsage=false
# It joins the columns that `Rows` keeps to itself.

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from .column import Array, Column, are_arrays, join_columns, take_column
from .rows import BlockRows, Rows, concat, have_one_signature, take
from .skipped import Skipped

GROUP_BYTES = 2**16
"""Columns of one type are joined side by side and gathered by one call, in so much memory, which stays in the cache."""


def take_joined(parts: Sequence[BlockRows], *selections: npt.NDArray[np.int64]) -> list[BlockRows]:
    """`take(concat(parts), indices)` for the indices in each of `selections`.

    Joins a few columns at a time.
    """
    all_rows = [part for part in parts if isinstance(part, Rows)]
    states = [rows._columns_and_selection for rows in all_rows]
    tables = [columns for columns, selection in states if selection is None]
    if len(parts) < 2 or len(tables) < len(parts) or Skipped.exist or not have_one_signature(parts):
        joined_rows = concat(parts)
        return [take(joined_rows, indices) for indices in selections]
    joined = _JoinedColumns(tables[0], sum(map(len, all_rows)), selections)
    for name in tables[0]:
        joined.add(name, [table[name] for table in tables])
    return [all_rows[0]._alike(Rows(columns, rows)) for columns, rows in joined.finish()]


class _JoinedColumns:
    """Joins columns, and gathers rows of them; small columns of one type wait until there are enough for one call."""

    def __init__(self, table: Mapping[str, Column], length: int, selections: Sequence[npt.NDArray[np.int64]]) -> None:
        self._length = length
        # All columns are replaced, in any order; the tables keep that of `table`.
        self._taken = [(dict(table), indices) for indices in selections]
        self._scratch = np.empty(0, np.uint8)
        self._groups: defaultdict[object, list[tuple[str, Sequence[Array]]]] = defaultdict(list)

    def add(self, name: str, pieces: Sequence[Column]) -> None:
        """Adds the pieces of a column."""
        if not are_arrays(pieces) or pieces[0].dtype.hasobject:
            self._take(name, join_columns(pieces))
            return
        shape = self._length, *pieces[0].shape[1:]
        size = math.prod(shape) * pieces[0].itemsize
        if 2 * size > GROUP_BYTES:
            self._take(name, np.concatenate(pieces, out=self._memory(shape, pieces[0].dtype, size)))
            return
        group = self._groups[pieces[0].dtype, shape]
        group.append((name, pieces))
        if (len(group) + 1) * size > GROUP_BYTES:
            self._take_group(group)
            group.clear()

    def finish(self) -> list[tuple[dict[str, Column], int]]:
        """The columns of each selection, and how many rows they have."""
        for group in filter(None, self._groups.values()):
            self._take_group(group)
        return [(columns, len(indices)) for columns, indices in self._taken]

    def _take(self, name: str, joined: Column) -> None:
        for columns, indices in self._taken:
            columns[name] = take_column(joined, indices)

    def _take_group(self, group: Sequence[tuple[str, Sequence[Array]]]) -> None:
        first = group[0][1][0]
        shape = len(group), self._length, *first.shape[1:]
        joined = self._memory(shape, first.dtype, max(GROUP_BYTES, math.prod(shape) * first.itemsize))
        for (_, pieces), target in zip(group, joined, strict=True):
            np.concatenate(pieces, out=target)
        names = [name for name, _ in group]
        for columns, indices in self._taken:
            gathered = joined.take(indices, axis=1)
            gathered.flags.writeable = False
            columns.update(zip(names, gathered, strict=True))

    def _memory(self, shape: tuple[int, ...], dtype: np.dtype[np.generic], size: int) -> Array:
        """An array in memory that the next one uses again."""
        if size > len(self._scratch):
            self._scratch = np.empty(size, np.uint8)
        return np.ndarray(shape, dtype, self._scratch)
