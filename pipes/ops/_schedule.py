"""Schedules: weights of a mixture, and sizes of batches, that change at given rows of a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.checks import check_int
from ..core.rows import Indices, index_array
from ..errors import ArgumentError
from ._turns import MAX_TOTAL, Ints, check_weights, whole_weights

U = TypeVar("U")
V = TypeVar("V")

MAX_STAGES = 2**16
"""The most stages of a schedule."""
NEVER = 2**62
"""The position of a turn that never comes."""

_WHOLE_TURN = 2**24  # so that products of a few turns in parts and a weight fit in 64 bits
_MANY_TURNS = 2**31  # the products of fewer turns and a weight do


def check_schedule(weights: Mapping[Any, Any], count: int, names: Sequence[str] = ()) -> dict[int, tuple[float, ...]]:
    """Check the weights of `count` pipes by the row from which on they hold; return them in the order of the rows."""
    return check_stages("weights", "weights", weights, lambda name, values: check_weights(values, count, names, name))


def check_stages(name: str, what: str, stages: Mapping[Any, U], check: Callable[[str, U], V]) -> dict[int, V]:
    """Check the stages of a schedule; return them in the order of the rows.

    Args:
        name: of the argument.
        what: what holds from a row on.
        stages: by the row from which on they hold.
        check: checks a stage, which it gets with its name.
    """
    if len(stages) > MAX_STAGES:
        raise ArgumentError(
            f"`{name}` must have at most {MAX_STAGES:,} stages but has {len(stages):,}; a ramp may change them "
            "every few rows"
        )
    checked = {
        check_int(f"{name}.keys()", row, least=0): check(f"{name}[{row}]", stage) for row, stage in stages.items()
    }
    if 0 not in checked:
        raise ArgumentError(
            f"`{name}` must have the key 0, because its keys are the rows from which on {what} hold, but has "
            f"{_listed(sorted(checked))}"
        )
    return {row: checked[row] for row in sorted(checked)}


def edges_in_words(stages: Mapping[int, object], unit: str = "row") -> str:
    """The rows at which a schedule changes: "row 50", "rows 50, 90", or "20 rows, from 50 to 950,"."""
    _, *edges = stages
    if len(edges) == 1:
        return f"{unit} {edges[0]}"
    if len(edges) <= 4:
        return f"{unit}s {', '.join(map(str, edges))}"
    return f"{len(edges)} {unit}s, from {edges[0]} to {edges[-1]},"


def _listed(rows: list[int]) -> str:
    return ", ".join(map(str, rows[:3])) + (", ..." if len(rows) > 3 else "") if rows else "none"


def weights_code(weights: Sequence[float], names: Sequence[str]) -> str:
    """Return weights as code: a list, or a dict by name."""
    return str(dict(zip(names, weights, strict=True)) if names else list(weights))


def schedule_code(schedule: Mapping[int, Sequence[float]], names: Sequence[str]) -> str:
    """Return a schedule as code; of many stages, the first and the last."""
    codes = [f"{row}: {weights_code(weights, names)}" for row, weights in schedule.items()]
    return "{" + ", ".join(codes if len(codes) <= 4 else [*codes[:2], "...", codes[-1]]) + "}"


def stages_in_shard(stages: Mapping[int, V], shards: int) -> dict[int, V]:
    """The stages of a schedule by the rows of one of `shards` shards."""
    return {-(-row // shards): value for row, value in stages.items()}


def stages_from(stages: Mapping[int, V], first: int) -> dict[int, V]:
    """The stages of a schedule from a row on, which becomes row 0."""
    return {max(0, row - first): value for row, value in stages.items()}


class WeightSchedule:
    """The weights of all inputs as whole numbers, by stage.

    Attributes:
        rows: the row of the mixture with which each stage begins.
    """

    def __init__(self, stages: Mapping[int, Sequence[float]]) -> None:
        self.rows = np.array([min(row, NEVER) for row in stages], np.int64)
        self._weights = np.array([_bounded(whole_weights(weights)) for weights in stages.values()], np.int64)

    def weighted(self) -> Ints:
        """The inputs that have a weight in some stage."""
        return np.flatnonzero(self._weights.any(axis=0))

    def turns(self, sources: Ints, first: int) -> ScheduledTurns:
        """The turns of these inputs from row `first` on."""
        return ScheduledTurns(*self.stages(sources, first, MAX_TOTAL))

    def stages(self, sources: Ints, first: int, most: int) -> tuple[Ints, Ints]:
        """The first turn of each stage from row `first` on, and the weights of these inputs: about `most` in all.

        If none of them has weight in a stage, each has 1.
        """
        starts = np.maximum(0, self.rows - first)
        last = np.append(starts[1:] > starts[:-1], True)  # of the stages that begin with one turn
        whole = self._weights[last][:, sources]
        whole[~whole.any(axis=1)] = 1
        return starts[last], _rounded(whole, most)


def _bounded(whole: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers in about the same proportions, whose sum fits in 62 bits."""
    if whole.dtype != object:
        return whole
    total = sum(whole.tolist())
    return np.array([max(1, (weight << 60) // total) if weight else 0 for weight in whole.tolist()])


def _rounded(whole: Ints, most: int) -> Ints:
    """The weights of each stage, in these proportions, whose sum is about `most` at most."""
    whole = whole // np.gcd.reduce(whole, axis=1)[:, None]
    totals = whole.sum(axis=1)[:, None]
    rounded = np.rint(whole * (most / totals)).astype(np.int64)
    return np.where(totals > most, np.maximum(rounded, whole > 0), whole)


class ScheduledTurns:
    """Turns in proportion to weights that change at given positions.

    The inputs are the leaves of a balanced binary tree. A fork knows what its left side should have had before a stage:
    its part of all turns so far. In the stage, it should have its part of the weight times the turns of the fork more,
    and of the turns by which the fork itself had too many or too few. The left side has that, rounded to the nearest,
    unless it would take more than all turns of the stage, or give back some; a side that weighs nothing has none. So no
    input begins again with a stage, and whatever the weights, each has its part of all turns so far, give or take about
    two.

    The tree is complete: node k has the sides 2k and 2k + 1, and the root is 1. Inputs are spread evenly over the
    leaves; the others weigh nothing.

    Args:
        starts: the first position of each stage, in ascending order from 0 on.
        weights: those of the inputs in each stage, as whole numbers; their sum is at most about `MAX_TOTAL`.
    """

    def __init__(self, starts: Ints, weights: Ints) -> None:
        stages, count = weights.shape
        leaves = self._leaves = 1 << (count - 1).bit_length()
        slots = -(-np.arange(count) * leaves // count)  # the leaf of each input
        self._starts = starts
        self._count = count
        self._nodes = leaves + slots
        self._levels = [slice(leaves >> k, 2 * leaves >> k) for k in range(leaves.bit_length() - 1, 0, -1)]
        self._source_of = np.zeros(leaves, np.int64)
        self._source_of[slots] = np.arange(count)
        totals = np.zeros((stages, 2 * leaves), np.int64)
        totals[:, self._nodes] = weights
        for level in reversed(self._levels):
            totals[:, level] = totals[:, 2 * level.start : 2 * level.stop].reshape(stages, -1, 2).sum(axis=2)
        # Of each fork: the weight of its left side and of both; of a fork that weighs nothing, 1, as it has no turns.
        self._lefts = totals[:, ::2].copy()
        self._totals = np.maximum(1, totals[:, :leaves])
        self._carries = np.zeros_like(self._totals)
        self._idle = np.flatnonzero(weights[-1] == 0)
        before = starts[:, None]  # the turns of the nodes of a level before each stage
        due = _Due(starts, totals)
        for level in self._levels:
            before = self._shared(level, before, due)
        self._before = before[:, slots]

    def _shared(self, level: slice, before: Ints, due: _Due) -> Ints:
        """The turns of both sides of each fork of a level before each stage; note the carries."""
        totals, lefts = self._totals[:, level], self._lefts[:, level]
        sides = slice(2 * level.start, 2 * level.stop, 2)
        whole, parts = due.whole[:, sides], due.parts[:, sides]
        # The turns of a fork before a stage that are more than it should have had.
        surplus = (before - due.whole[:, level]) * _WHOLE_TURN - due.parts[:, level]
        # Half a turn to round to the nearest, and more than is lost by rounding down in each stage.
        carries = (totals * (parts + _WHOLE_TURN // 2 + len(totals)) + lefts * surplus) // _WHOLE_TURN
        turns = np.diff(before, axis=0)
        least, most = np.where(lefts == totals, 1, 0)[:-1] * turns, np.where(lefts > 0, 1, 0)[:-1] * turns
        left = np.zeros_like(before)
        left[1:] = whole[:-1] + _rounded_share(turns, lefts[:-1], totals[:-1], carries[:-1])[0]
        own = np.diff(left, axis=0)
        if (own < least).any() or (own > most).any():
            for stage in range(len(turns)):
                left[stage + 1] = np.clip(left[stage + 1], left[stage] + least[stage], left[stage] + most[stage])
        one_sided = (lefts == 0) | (lefts == totals)
        self._carries[:, level] = np.where(one_sided, 0, carries + totals * (whole - left))
        return np.stack([left, before - left], axis=2).reshape(len(before), -1)

    @property
    def edges(self) -> Ints:
        return self._starts[1:]

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        stages, turns = self._in_stages(positions)
        nodes = np.ones(len(turns), np.int64)
        rows = stages * self._leaves
        lefts, totals, carries = self._lefts.reshape(-1), self._totals.reshape(-1), self._carries.reshape(-1)
        for _ in self._levels:
            forks = rows + nodes
            weights, total = lefts[forks], totals[forks]
            before, rest = _rounded_share(turns, weights, total, carries[forks])
            is_left = (before >= 0) & ((rest + weights >= total) | (before > turns))
            before = np.minimum(np.maximum(before, 0), turns)
            turns = np.where(is_left, before, turns - before)
            nodes = 2 * nodes + ~is_left
        sources = self._source_of[nodes - self._leaves]
        return sources, turns + self._before.reshape(-1)[stages * self._count + sources]

    def _in_stages(self, positions: Indices) -> tuple[Ints, Ints]:
        """The stage of each position, and the position in it."""
        if isinstance(positions, range) and positions.step == 1 and positions:
            first, last = np.searchsorted(self._starts, [positions.start, positions.stop - 1], "right") - 1
            bounds = np.concatenate([[positions.start], self._starts[first + 1 : last + 1], [positions.stop]])
            stages = np.repeat(np.arange(first, last + 1), np.diff(bounds))
        else:
            stages = np.searchsorted(self._starts, positions, "right") - 1
        return stages, index_array(positions) - self._starts[stages]

    def first_end(self, rows: Ints) -> int:
        # The position of turn `turns[k]` of each input k; `NEVER` if it does not come.
        stages = (self._before <= rows).sum(axis=0) - 1
        never = (stages == len(self._starts) - 1) & np.isin(np.arange(self._count), self._idle)
        turns = np.where(never, 0, rows - self._before[stages, np.arange(self._count)])
        nodes = self._nodes
        for _ in self._levels:
            forks = nodes // 2
            left, total, carry = self._lefts[stages, forks], self._totals[stages, forks], self._carries[stages, forks]
            is_left = nodes % 2 == 0
            weight = np.maximum(1, np.where(is_left, left, total - left))
            periods, rest = np.divmod(turns, weight)
            of_left, of_right = -((carry - (rest + 1) * total) // weight) - 1, (rest * total + carry) // weight
            turns = np.maximum(turns, periods * total + np.where(is_left, of_left, of_right))
            nodes = forks
        return int(np.where(never, NEVER, self._starts[stages] + turns).min())

    def counts(self, position: int) -> Ints:
        stage = int(np.searchsorted(self._starts, position, "right")) - 1
        turns = np.array([position - int(self._starts[stage])])
        for level in self._levels:
            of_forks = self._lefts[stage, level], self._totals[stage, level], self._carries[stage, level]
            left = np.minimum(np.maximum(_rounded_share(turns, *of_forks)[0], 0), turns)
            turns = np.stack([left, turns - left], axis=1).reshape(-1)
        counts: Ints = self._before[stage] + turns[self._nodes - self._leaves]
        return counts


class _Due:
    """The turns that each node should have had before each stage, exactly: whole ones, and parts of `_WHOLE_TURN`."""

    def __init__(self, starts: Ints, totals: Ints) -> None:
        weights, all_weights = totals[:-1], totals[:-1, 1:2]
        periods, rest = np.divmod(np.diff(starts)[:, None], all_weights)
        whole, rest = np.divmod(rest * weights, all_weights)
        self.whole, parts = np.zeros_like(totals), np.zeros_like(totals)
        self.whole[1:] = np.cumsum(periods * weights + whole, axis=0)
        parts[1:] = np.cumsum(rest * _WHOLE_TURN // all_weights, axis=0)
        self.whole += parts // _WHOLE_TURN
        self.parts = parts % _WHOLE_TURN


def _rounded_share(turns: Ints, weights: Ints, totals: Ints, carries: Ints) -> tuple[Ints, Ints]:
    """`turns * weights + carries` over `totals`, rounded down, and the rest."""
    periods: Ints | int = 0
    if turns.max(initial=0) >= _MANY_TURNS:
        periods, turns = np.divmod(turns, totals)
    shares = turns * weights + carries
    rounded = shares // totals
    return rounded + periods * weights, shares - rounded * totals
