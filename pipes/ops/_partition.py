"""Partitions of numbers into parts whose sums are about equal."""

from __future__ import annotations

from heapq import heapreplace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Costs: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = tuple[Ints, Ints, Ints]
"""A number of each group: the group, its place in the part, the part."""

EXCHANGES = 16
"""The rounds of exchanges at most: with them, a number takes about 2 microseconds."""
RELIEFS = 8
"""The numbers that the part with the largest sum exchanges with any other, after most of these rounds."""
CLOSE = 0.01
"""Sums that differ by no more than this part of their mean are balanced."""
CANDIDATES = 8
"""The numbers of a part that are compared with those of another one."""
FREE = 2
"""The places that `parts_below` adds to a part, so that numbers can move there."""


def balanced_order(costs: Costs, size: int, among: int) -> Ints:
    """The order in which each `size` rows of a group of `size * among` cost about the same.

    Batches come in the order of their first rows, and the rows of a batch in theirs. The rows that do not fill a batch
    stay last.
    """
    rows, group = len(costs), size * among
    order = np.arange(rows)
    whole = rows // group * group
    rest = (rows - whole) // size * size
    for first, stop, batches in ((0, whole, among), (whole, whole + rest, rest // size)):
        if stop > first and size > 1 and batches > 1:
            parts = _in_parts(costs[first:stop].reshape(-1, batches * size), batches)
            firsts = np.arange(first, stop, batches * size)[:, None, None]
            order[first:stop] = (parts + firsts).ravel()
    return order


def _in_parts(costs: Costs, parts: int) -> Ints:
    """Divide each row of `costs` into `parts` of equally many columns, whose sums are about equal.

    The largest numbers that are left go, one to each part, to the parts with the smallest sums. Then parts with large
    sums exchange two numbers with parts that have small ones, all at the same time. Sums are computed in a fixed order,
    so the result is the same on every machine.

    Source: Graham, "Bounds on multiprocessing timing anomalies" (1969), in rounds, so that parts have equally many
    numbers; Finn and Horowitz, "A linear time approximation algorithm for multiprocessor scheduling" (1979). A number
    that is nearly as large as a sum needs the smallest ones beside it, which lie in many parts: `_relieve` finds them.

    Returns:
        The columns of each part, in the order of the first of them.
    """
    groups, columns = costs.shape
    size = columns // parts
    order = np.argsort(-costs, axis=1, kind="stable")
    members = np.empty((groups, size, parts), np.int64)
    held = np.empty((groups, size, parts))
    sums = np.zeros((groups, parts))
    for turn in range(size):
        dealt = order[:, turn * parts : (turn + 1) * parts]
        smallest = np.argsort(sums, axis=1, kind="stable")
        np.put_along_axis(members[:, turn], smallest, dealt, 1)
        np.put_along_axis(held[:, turn], smallest, np.take_along_axis(costs, dealt, 1), 1)
        sums += held[:, turn]
    exchange(members, held, sums)
    members.sort(axis=1)
    first = np.argsort(members[:, 0], axis=1, kind="stable")
    return np.take_along_axis(members, first[:, None], 2).transpose(0, 2, 1)


def exchange(members: Ints, held: Costs, sums: Costs) -> None:
    """Exchange pairs of numbers between parts until their sums are close. The arguments are changed."""
    groups, size, parts = members.shape
    pairs, stride = parts // 2, -(-size // CANDIDATES)
    close = sums.sum(1) / parts * CLOSE
    active = np.arange(groups)
    for number in range(EXCHANGES):
        if number == EXCHANGES * 3 // 4:
            _relieve(members, held, sums)
        active = active[sums[active].max(1) - sums[active].min(1) > close[active]]
        if not len(active):
            return
        by_sum = np.argsort(sums[active], axis=1, kind="stable")
        large, small = by_sum[:, : -pairs - 1 : -1], by_sum[:, :pairs]
        if number % 2:  # others meet
            small = np.roll(small, number, axis=1)
        gap = np.take_along_axis(sums[active], large, 1) - np.take_along_axis(sums[active], small, 1)
        turns = np.arange(number % stride, size, stride)
        candidates = held[active[:, None], turns]
        given = np.take_along_axis(candidates, large[:, None], 2)
        taken = np.take_along_axis(candidates, small[:, None], 2)
        left = np.abs(gap[:, None, None] - 2 * (given[:, :, None] - taken[:, None]))
        left = left.reshape(len(active), -1, pairs)
        best = left.argmin(1)
        better, pair = np.nonzero(np.take_along_axis(left, best[:, None], 1)[:, 0] < np.abs(gap))
        group, choice = active[better], best[better, pair]
        here = group, turns[choice // len(turns)], large[better, pair]
        there = group, turns[choice % len(turns)], small[better, pair]
        _swap(members, held, sums, here, there)


def _relieve(members: Ints, held: Costs, sums: Costs) -> None:
    """Make the largest sum of a group as small as exchanges with any other part can make it."""
    groups, size, parts = members.shape
    stride = -(-size // CANDIDATES)
    close = sums.sum(1) / parts * CLOSE
    active = np.arange(groups)
    for number in range(RELIEFS):
        active = active[sums[active].max(1) - sums[active].min(1) > close[active]]
        heavy, turns = sums[active].argmax(1), np.arange(number % stride, size, stride)
        largest = sums[active, heavy]
        given = held[active[:, None], turns, heavy[:, None]]
        moved = given[:, :, None, None] - held[active][:, None]
        larger = np.maximum(largest[:, None, None, None] - moved, sums[active][:, None, None] + moved)
        larger = larger.reshape(len(active), len(turns) * size * parts)
        best = larger.argmin(1)
        better = np.flatnonzero(np.take_along_axis(larger, best[:, None], 1)[:, 0] < largest)
        turn, place, part = np.unravel_index(best[better], (len(turns), size, parts))
        active = active[better]
        _swap(members, held, sums, (active, turns[turn], heavy[better]), (active, place, part))


def _swap(members: Ints, held: Costs, sums: Costs, here: Places, there: Places) -> None:
    moved = held[here] - held[there]
    sums[here[0], here[2]] -= moved
    sums[there[0], there[2]] += moved
    for values in (members, held):
        values[here], values[there] = values[there], values[here]


def parts_below(costs: Costs, parts: int, limit: float, most: int | None) -> Ints | None:
    """The part of each number, of `parts` with about equal sums; None if a sum is above `limit`.

    A part has any number of numbers, at most `most`. Each number, from the largest to the smallest, goes to the part
    with the smallest sum; then parts exchange numbers, or move them to free places.
    """
    heap = [(0.0, part) for part in range(parts)]  # a sorted list is a heap
    own: list[list[int]] = [[] for _ in range(parts)]
    for place in np.argsort(-costs, kind="stable").tolist():
        total, part = heap[0]
        if total == np.inf:
            return None
        own[part].append(place)
        heapreplace(heap, (np.inf if len(own[part]) == most else total + float(costs[place]), part))
    size = min(most or len(costs), max(map(len, own)) + FREE)
    members = np.full((1, size, parts), -1)
    for part, places in enumerate(own):
        members[0, : len(places), part] = places
    held = np.where(members < 0, 0.0, costs[members])
    sums = held.sum(1)
    exchange(members, held, sums)
    if sums.max() > limit:
        return None
    labels = np.empty(len(costs), np.int64)
    _, _, of_member = np.nonzero(members >= 0)
    labels[members[members >= 0]] = of_member
    return labels
