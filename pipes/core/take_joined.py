"""`take_joined`: rows of several parts, gathered without joining the parts as a whole."""

# pyright: reportPrivateUsage=false
# It joins the columns that `Rows` keeps to itself.

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .column import Column, are_arrays, join_columns, take_column
from .rows import BlockRows, Rows, concat, have_one_signature, take
from .skipped import Skipped


def take_joined(parts: Sequence[BlockRows], *selections: npt.NDArray[np.int64]) -> list[BlockRows]:
    """`take(concat(parts), indices)` for the indices in each of `selections`.

    Joins one column of arrays at a time, in memory that stays in the cache.
    """
    all_rows = [part for part in parts if isinstance(part, Rows)]
    states = [rows._columns_and_selection for rows in all_rows]
    tables = [columns for columns, selection in states if selection is None]
    if len(parts) < 2 or len(tables) < len(parts) or Skipped.exist or not have_one_signature(parts):
        joined_rows = concat(parts)
        return [take(joined_rows, indices) for indices in selections]
    length = sum(map(len, all_rows))
    scratch = np.empty(0, np.uint8)
    taken: list[dict[str, Column]] = [{} for _ in selections]
    for name in tables[0]:
        pieces = [table[name] for table in tables]
        if are_arrays(pieces) and not pieces[0].dtype.hasobject:
            shape = length, *pieces[0].shape[1:]
            size = math.prod(shape) * pieces[0].itemsize
            if size > len(scratch):
                scratch = np.empty(size, np.uint8)
            joined: Column = np.concatenate(pieces, out=np.ndarray(shape, pieces[0].dtype, scratch))
        else:
            joined = join_columns(pieces)
        for columns, indices in zip(taken, selections, strict=True):
            columns[name] = take_column(joined, indices)
    lengths = map(len, selections)
    return [all_rows[0]._alike(Rows(columns, length)) for columns, length in zip(taken, lengths, strict=True)]
