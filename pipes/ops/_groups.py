"""Groups of rows, whole, in parts near given sizes; of each class too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.context import mixed
from ._keys import Digests, Ints


class Groups(NamedTuple):
    """The part of each group.

    Attributes:
        digests: of the key of each group, in ascending order.
        parts, sizes: the number of its part, and that of its rows.
    """

    digests: Digests
    parts: Ints
    sizes: Ints

    def parts_of(self, digests: Digests) -> Ints:
        """The part of each group, by the digest of its key; -1 of a group that is not among these."""
        places = np.minimum(np.searchsorted(self.digests, digests), len(self.digests) - 1)
        return np.where(self.digests[places] == digests, self.parts[places], -1)


def put_into_parts(groups: Digests, classes: Digests | None, goals: npt.NDArray[Any], seed: int) -> Groups:
    """Put groups into parts, whole: from the largest to the smallest, each into the part that misses most.

    That is the part in which the squares of the distances to the goals grow least: those of all rows and of each class,
    in parts of the goal. Groups of one size come in an order that depends on the seed.

    Args:
        groups, classes: digests, one for each row.
        goals: the sizes of the parts, in any unit.
        seed: another one puts groups of one size into other parts.

    Returns:
        The parts, which are the same on every machine.
    """
    digests, of_row, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    kinds = np.zeros(len(groups), np.int64) if classes is None else np.unique(classes, return_inverse=True)[1]
    count = int(kinds.max(initial=0)) + 1
    pairs, rows = np.unique(of_row * count + kinds, return_counts=True)
    bounds = np.searchsorted(pairs, np.arange(len(digests) + 1) * count).tolist()
    (word,) = mixed(np.array([seed], np.uint64))
    order = np.lexsort((mixed(digests ^ word), -sizes))
    totals = np.bincount(kinds, minlength=count).tolist()
    parts = _parts_in_order(order.tolist(), bounds, (pairs % count).tolist(), rows.tolist(), totals, goals.tolist())
    return Groups(digests, np.array(parts, np.int64), sizes)


def _parts_in_order(
    order: list[int], bounds: list[int], kinds: list[int], rows: list[int], totals: list[int], goals: Sequence[float]
) -> list[int]:
    """The part of each group.

    If a part has h of g rows and n more come, its square grows by (2h + n) n - 2gn. Over a goal that is in proportion
    to the size of the part, the last term is the same for all parts, so that it is left out. All sums are of floats in
    a fixed order.

    Args:
        order: the groups, from the first to the last.
        bounds: the classes of group k are those from `bounds[k]` to `bounds[k + 1]` of `kinds` and `rows`.
        kinds, rows: the number of a class, and of its rows in the group.
        totals: the rows of each class.
        goals: the sizes of the parts.
    """
    result = [0] * len(order)
    had = [[0] * len(goals) for _ in totals]  # the rows of each class in each part
    all_had, all_rows = [0] * len(goals), sum(totals)
    for group in order:
        own = range(bounds[group], bounds[group + 1])
        size = sum(rows[k] for k in own)
        costs = [(2 * part + size) * size / all_rows for part in all_had]
        for k in own:
            count, total = rows[k], totals[kinds[k]]
            costs = [cost + (2 * part + count) * count / total for cost, part in zip(costs, had[kinds[k]], strict=True)]
        costs = [cost / goal if goal else math.inf for cost, goal in zip(costs, goals, strict=True)]
        best = costs.index(min(costs))
        result[group] = best
        all_had[best] += size
        for k in own:
            had[kinds[k]][best] += rows[k]
    return result
