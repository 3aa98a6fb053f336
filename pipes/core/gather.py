"""Rows at positions that belong to several parts, such as the inputs of `concat` or the rounds of `repeat`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

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
    order = stable_order(owners, len(bounds))
    owners, places = owners[order], places[order]
    edges = [0, *(np.flatnonzero(owners[1:] != owners[:-1]) + 1).tolist(), len(order)]
    parts = [(int(owners[start]), places[start:stop]) for start, stop in pairwise(edges)]
    pieces = [part(k, own - bounds[k]) for k, own in parts]
    return pieces[0] if len(pieces) == 1 else take(concat(pieces), inverse(order))


def stable_order(numbers: npt.NDArray[np.int64], end: int) -> npt.NDArray[np.int64]:
    """The order that sorts numbers from 0 to `end`, and keeps that of equal ones."""
    short = numbers.astype(np.uint16) if end <= 2**16 else numbers  # 16 bits sort in one pass
    return np.argsort(short, kind="stable")


def inverse(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The permutation that undoes `order`."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places
