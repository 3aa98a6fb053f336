"""`divide`: the units and parts of units that each shard reads."""

from __future__ import annotations

import heapq
import math
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.context import RowShare

Numbers = npt.NDArray[np.int64]
SLOTS_PER_SHARE = 128
"""Slots in a mean share of a unit that is divided: parts are right to half of that, 1/256 of the mean."""
MAX_SLOTS = 2**20
GOLDEN_RATIO = (5**0.5 - 1) / 2
MAX_WEIGHT_BITS = 40
"""Weights are scaled so that their sum has no more bits: its products with two small numbers fit in 64."""
UNEVEN_IN_RANK = 10
"""Shards of one rank may have a tenth more than the mean where that leaves units whole: a unit that is cut is read by
several workers, and the rank has the same rows either way."""


def divide(weights: Numbers, shards: int, ranks: int, *, any_order: bool, near: int) -> Pieces:
    """Divide units among shards: the weights nearly even, and few units read by several shards.

    In any order, the units lie on a line that is cut at equal weights. In the order of the source, each unit goes to
    the shard that has least, so that all shards move through the source together; what fits none is cut. A unit that
    is larger than a share is always cut.

    Args:
        weights: of the units by place.
        shards: the number of shards.
        ranks: rank r has each `ranks`-th shard from r on. In any order, ranks have even parts of the line.
        any_order: a shard may read its units in another order than that of their places.
        near: a cut nearer than 1 / `near` of a share to the border of a unit goes to the border.
    """
    count = len(weights)
    ranks = ranks if any_order else shards
    if not count or (weights == weights[0]).all():
        return _equal(count, shards, ranks, near)
    if (excess := int(weights.sum()).bit_length() - MAX_WEIGHT_BITS) > 0:
        weights = weights >> excess
    mean = max(1, int(weights.sum()) // shards)
    slots = np.clip(-(-weights * SLOTS_PER_SHARE // mean), 1, MAX_SLOTS)
    if not any_order and int(weights.max()) <= mean:
        return _in_turn(weights, slots, shards, near)
    spans, *parts = _divide_at(weights, slots, _borders(weights, shards, ranks), mean // near)
    owners = _owners(shards, ranks)[spans]
    del spans, slots  # there may be a million units
    return _table(shards, 0, owners, *parts, by_place=not any_order)


class Pieces(NamedTuple):
    """The parts of units that each shard reads. A unit is named by its place in the order of the pass.

    A piece is the slots [first, stop) of the `slots` of a unit; a whole unit is slot 0 of 1. If a unit cannot be cut,
    its rows lie in the slots as `RowShare` says: with the step of `step_of`, any few rows are spread over all slots.

    Attributes:
        shards: the number of shards.
        rounds: the units at the places below `rounds * shards` go to the shards in turn; they are in no table.
        starts: shard v reads the pieces `starts[v]` to `starts[v + 1]` of the table, in this order.
        places, slots, first, stop: the table.
    """

    shards: int
    rounds: int
    starts: Numbers
    places: Numbers
    slots: Numbers
    first: Numbers
    stop: Numbers

    def lengths(self, rows: Numbers, of_pieces: Numbers | None = None) -> Numbers:
        """The number of rows of each shard, if `rows` are those of the units by place.

        Args:
            rows: those of the units.
            of_pieces: those of the pieces of the table, if they do not follow from the slots.
        """
        in_rounds = self.rounds * self.shards
        totals = rows[:in_rounds].reshape(self.rounds, self.shards).sum(0)
        sums = np.concatenate([[0], np.cumsum(self.rows(rows) if of_pieces is None else of_pieces)])
        lengths: Numbers = totals + sums[self.starts[1:]] - sums[self.starts[:-1]]
        return lengths

    def rows(self, rows: Numbers) -> Numbers:
        """The number of rows of each piece of the table."""
        output: Numbers = rows[self.places]
        cut = np.flatnonzero(self.slots > 1)
        output[cut] = [part.count(n) for part, n in zip(self.shares(cut), output[cut].tolist(), strict=True)]
        return output

    def shares(self, indices: Numbers | slice = slice(None)) -> list[RowShare]:
        """The parts of units that all pieces are, or some of them."""
        slots = self.slots[indices].tolist()
        parts = zip(self.first[indices].tolist(), self.stop[indices].tolist(), slots, strict=True)
        return [RowShare(*part, step_of(part[2])) for part in parts]

    def of_shard(self, shard: int) -> Pieces:
        """The table of one shard."""
        part = slice(self.starts[shard], self.starts[shard + 1])
        ends = np.array([0, part.stop - part.start])
        return Pieces(1, 0, ends, self.places[part], self.slots[part], self.first[part], self.stop[part])


def step_of(slots: int) -> int:
    """The step from the slot of one row to that of the next: about the golden ratio, so that rows are spread evenly.

    Source: the Kronecker sequence of that ratio has the least discrepancy (Niederreiter, "Random Number Generation and
    Quasi-Monte Carlo Methods", 1992, chapter 3).
    """
    step = round(slots * GOLDEN_RATIO)
    while math.gcd(step, slots) > 1:
        step += 1
    return step


def _equal(count: int, shards: int, ranks: int, near: int) -> Pieces:
    """Divide units of one weight: whole rounds of them, then equal parts of the rest."""
    rounds, left = divmod(count, shards)
    weights = np.full(left, shards)  # so that a share of all is `count`, and of what is left `left`
    slots = np.full(left, min(shards, -(-SLOTS_PER_SHARE * shards // max(1, count))))
    spans, places, *parts = _divide_at(weights, slots, np.arange(shards + 1) * left, count // near)
    return _table(shards, rounds, _owners(shards, ranks)[spans], places + rounds * shards, *parts, by_place=False)


def _in_turn(weights: Numbers, slots: Numbers, shards: int, near: int) -> Pieces:
    """Give each unit to the shard that has least, as a queue would, and cut those that fit none."""
    mean = int(weights.sum()) // shards
    most = mean + mean // near
    owners = np.full(len(weights), -1)
    loads = [(0, shard) for shard in range(shards)]
    for place, weight in enumerate(weights.tolist()):
        load, shard = loads[0]
        if load + weight <= most:
            owners[place] = shard
            heapq.heapreplace(loads, (load + weight, shard))
    missing = [max(0, mean - load) for load, _ in sorted(loads, key=lambda load: load[1])]
    kept, rest = np.flatnonzero(owners >= 0), np.flatnonzero(owners < 0)
    left, all_missing = int(weights[rest].sum()), max(1, sum(missing))
    borders = [total * left // all_missing for total in accumulate(missing, initial=0)]
    spans, places, parts, first, stop = _divide_at(weights[rest], slots[rest], np.array(borders), mean // near)
    return _table(
        shards,
        0,
        np.concatenate([owners[kept], spans]),
        np.concatenate([kept, rest[places]]),
        np.concatenate([slots[kept], parts]),
        np.concatenate([np.zeros(len(kept), np.int64), first]),
        np.concatenate([slots[kept], stop]),
        by_place=True,
    )


def _owners(shards: int, ranks: int) -> Numbers:
    """The shard of each span of a line. Neighbours go to one rank, so the errors of their cuts cancel."""
    of_rank = shards // ranks
    spans = np.arange(shards)
    return spans % of_rank * ranks + spans // of_rank


def _borders(weights: Numbers, shards: int, ranks: int) -> Numbers:
    """Where a line is cut: evenly among ranks, and within a rank at the borders of units where shards have room."""
    ends = np.cumsum(weights)
    borders = np.arange(shards + 1) * int(ends[-1]) // shards
    of_ranks = borders[:-1].reshape(ranks, -1)
    at, stops = of_ranks[:, 0], borders[shards // ranks :: shards // ranks]
    mean = int(ends[-1]) // shards
    most = mean + mean // UNEVEN_IN_RANK
    for place in range(1, shards // ranks):
        others = shards // ranks - place
        even = at + (stops - at) // (others + 1)
        unit = np.searchsorted(ends, even)
        cuts = np.array([ends[unit] - weights[unit], ends[unit]])
        fits = (cuts > at) & (cuts - at <= most) & (stops - cuts <= others * most)
        distance = np.where(fits, np.abs(cuts - even), int(ends[-1]))
        at = np.where(fits.any(0), cuts[distance.argmin(0), range(ranks)], even)
        of_ranks[:, place] = at
    return borders


def _divide_at(
    weights: Numbers, slots: Numbers, borders: Numbers, near: int
) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
    """The parts of units on a line that lie between neighbouring borders.

    Returns:
        span, place, slots, first and stop of each part, in the order of the line.
    """
    count = len(weights)
    if not count:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty, empty, empty
    ends = np.cumsum(weights)
    inner = borders[1:-1]
    at = np.searchsorted(ends, inner)
    before, after = inner - (ends[at] - weights[at]), ends[at] - inner
    slot = (2 * before * slots[at] + weights[at]) // np.maximum(1, 2 * weights[at])
    slot = np.where(np.minimum(before, after) <= near, np.where(before < after, 0, slots[at]), slot)
    # A cut as one number: the place of its unit, and the slot in it.
    base = int(slots.max())
    is_end = slot >= slots[at]
    cuts = np.concatenate([[0], (at + is_end) * base + np.where(is_end, 0, slot), [count * base]])
    cuts = np.maximum.accumulate(cuts)
    cut_places, cut_slots = np.divmod(cuts, base)
    last = cut_places[1:] - (cut_slots[1:] == 0)
    counts = np.where(cuts[1:] == cuts[:-1], 0, last - cut_places[:-1] + 1)
    starts = np.cumsum(counts) - counts
    spans = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(spans)) + np.repeat(cut_places[:-1] - starts, counts)
    parts = slots[places]
    first, stop = np.zeros_like(parts), parts.copy()
    used = np.flatnonzero(counts)  # only the first and the last part of a span may be cut
    first[starts[used]] = cut_slots[:-1][used]
    ends = used[cut_slots[1:][used] > 0]
    stop[(starts + counts)[ends] - 1] = cut_slots[1:][ends]
    return spans, places, parts, first, stop


def _table(
    shards: int,
    rounds: int,
    owners: Numbers,
    places: Numbers,
    slots: Numbers,
    first: Numbers,
    stop: Numbers,
    *,
    by_place: bool,
) -> Pieces:
    """The pieces by shard. In any order, shared units come first: all shards then read them at the same time.

    The arrays of the pieces are changed.
    """
    _reduce(places, slots, first, stop)
    order = np.lexsort((places, owners) if by_place else (places, slots == 1, owners))
    starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=shards))])
    for column in (places, slots, first, stop):
        column[:] = column[order]
    return Pieces(shards, rounds, starts, places, slots, first, stop)


def _reduce(places: Numbers, slots: Numbers, first: Numbers, stop: Numbers) -> None:
    """Change parts of units to the same ones in the fewest slots; a whole unit is slot 0 of 1."""
    cut = np.flatnonzero((first > 0) | (stop < slots))  # few of many
    parts = [column[cut] for column in (slots, first, stop)]
    for column, whole in ((slots, 1), (first, 0), (stop, 1)):
        column.fill(whole)
    if len(cut):
        order = np.argsort(places[cut], kind="stable")
        starts = np.flatnonzero(np.diff(places[cut][order], prepend=-1))
        divisors = np.gcd.reduceat(np.gcd.reduce(parts)[order], starts)
        divisor = np.empty_like(cut)
        divisor[order] = np.repeat(divisors, np.diff(starts, append=len(cut)))
        slots[cut], first[cut], stop[cut] = (part // divisor for part in parts)
