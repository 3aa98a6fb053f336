"""Rows at positions that belong to several parts, such as the inputs of `concat` or the rounds of `repeat`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .rows import BlockRows, Indices, concat, index_array, take


def gather(indices: Indices, bounds: npt.NDArray[np.int64], part: Callable[[int, Indices], BlockRows]) -> BlockRows:
    """The rows at `indices`, gathered from several parts.

    Args:
        indices: positions among the rows of all parts.
        bounds: part k holds positions `bounds[k]` to `bounds[k + 1]`.
        part: gives the rows of part k at places of its own.
    """
    if not len(indices):
        return part(0, range(0))
    if isinstance(indices, range) and indices.step == 1:
        first, last = np.searchsorted(bounds, [indices.start, max(indices.start, indices.stop - 1)], "right") - 1
        pieces: list[BlockRows] = []
        for k in range(int(first), int(last) + 1):
            low, high = max(indices.start, int(bounds[k])), min(indices.stop, int(bounds[k + 1]))
            if low < high:
                pieces.append(part(k, range(low - int(bounds[k]), high - int(bounds[k]))))
        return concat(pieces) if pieces else []
    places = index_array(indices)
    owners = np.searchsorted(bounds, places, "right") - 1
    order = np.argsort(owners, kind="stable")
    cuts = np.flatnonzero(np.diff(owners[order])) + 1
    groups = [group for group in np.split(order, cuts) if len(group)]
    pieces = [part(int(owners[g[0]]), places[g] - bounds[owners[g[0]]]) for g in groups]
    return take(concat(pieces), np.argsort(order)) if pieces else []
