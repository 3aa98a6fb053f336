"""`Turns`: the input of a mixture that gives the row at each position, in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from ..core.context import Generators, Key
from ..core.rows import Indices, index_array, inverse, stable_order
from ..errors import ArgumentError, ArgumentTypeError

Ints = npt.NDArray[np.int64]

MAX_TOTAL = 2**30
"""Weights are rounded so that their sum is about this at most: products of two such numbers fit in 64 bits."""
SHUFFLED_TURNS = 1024
"""Random turns are those of the fixed order, permuted within blocks of this length."""
MAX_BLOCKS_KEPT = 128
"""Blocks of random turns in memory, for rows that are asked for in another order: 2 MiB."""
MAX_INPUTS = 2**16
"""A mixture has fewer inputs."""
MANY_TURNS = 512
"""A fork with as many turns shares them by itself, and not together with the forks of its level."""


class Turns(Protocol):
    """An endless order of the turns of inputs, which are numbered from 0."""

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        """Return the input whose turn it is at each position, and the number of its turns before.

        A `range` of positions takes less time.
        """
        ...


class FixedTurns(Turns, Protocol):
    """Turns in an order that is not random."""

    @property
    def edges(self) -> Ints:
        """The positions from which on the inputs have other weights, in ascending order."""
        ...

    def first_end(self, rows: Ints) -> int:
        """Return the first position at which an input of `rows[k]` rows has a turn and no row for it."""
        ...

    def counts(self, position: int) -> Ints:
        """Return the number of turns of each input before `position`."""
        ...


class _OneStage:
    """Turns whose weights do not change."""

    @property
    def edges(self) -> Ints:
        return np.zeros(0, np.int64)


@dataclass(frozen=True)
class EqualTurns(_OneStage):
    """One turn of each of `count` inputs after the other."""

    count: int

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        turns, sources = np.divmod(index_array(positions), self.count)
        return sources, turns

    def first_end(self, rows: Ints) -> int:
        return int((rows * self.count + np.arange(self.count)).min())

    def counts(self, position: int) -> Ints:
        return (position - np.arange(self.count) + self.count - 1) // self.count


class WeightedTurns(_OneStage):
    """Turns in proportion to whole weights, which `rounded_weights` returns.

    The inputs are the leaves of a binary tree. Each fork shares its turns between its two sides: of its first i turns,
    the left side has i times its part of the weight, rounded to the nearest. So the turns at any position follow from a
    few divisions. The tree is that of Huffman's code, in which a node weighs at most half as much as the parent of its
    parent. The errors of rounding therefore add up to less than two turns, for any weights and at any position.

    A node is a number: first the leaves, then the forks, each behind its sides. The turns repeat after as many as the
    root weighs, and a leaf has as many of these as it weighs.

    Source: D. A. Huffman, "A Method for the Construction of Minimum-Redundancy Codes" (1952).
    """

    def __init__(self, weights: Ints) -> None:
        count = self._count = len(weights)
        self._root = 2 * count - 2
        self._sides = np.zeros((2 * count - 1, 2), np.int64)  # the left and the right one of each fork
        self._left_weights = np.zeros(2 * count - 1, np.int64)
        self._weights = np.concatenate([weights, np.zeros(count - 1, np.int64)])
        self._period: tuple[Ints, Ints] | None = None
        self._levels: list[slice] = []  # forks whose sides are all in levels before, or leaves
        # Nodes that have no parent yet, by weight, and among equal ones by the least of their leaves.
        keys = weights << _KEY_BITS | np.arange(count)
        nodes = np.argsort(keys)
        keys, stop = keys[nodes], count
        while len(keys) > 1:
            # Huffman joins the two lightest nodes again and again. All that are lighter than the first of the forks
            # to come are joined in pairs before it.
            weights = keys >> _KEY_BITS
            lighter = int(np.searchsorted(weights, weights[0] + weights[1])) // 2 * 2
            pairs, (light, heavy) = nodes[:lighter].reshape(-1, 2), weights[:lighter].reshape(-1, 2).T
            forks = slice(stop, stop + lighter // 2)
            self._sides[forks] = np.where((light == heavy)[:, None], pairs, pairs[:, ::-1])
            self._left_weights[forks] = heavy
            self._weights[forks] = light + heavy
            self._levels.append(forks)
            least = (keys[:lighter] & _LEAF_MASK).reshape(-1, 2).min(axis=1)
            keys = np.concatenate([keys[lighter:], (light + heavy) << _KEY_BITS | least])
            nodes = np.concatenate([nodes[lighter:], np.arange(forks.start, forks.stop)])
            order = np.argsort(keys, kind="stable")
            keys, nodes, stop = keys[order], nodes[order], forks.stop

    def forks(self) -> Iterator[tuple[int, int, int, int]]:
        """The left and the right side of each fork, and their weights; the sides of a fork come before it."""
        for left, right in self._sides[self._count :].tolist():
            yield left, right, int(self._weights[left]), int(self._weights[right])

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        length = int(self._weights[self._root])
        if self._period is None and len(positions) >= length:
            self._period = self._in_period(np.arange(length))
        periods, rest = np.divmod(index_array(positions), length)
        sources, turns = self._in_period(rest) if self._period is None else (kept[rest] for kept in self._period)
        return sources, turns + periods * self._weights[sources]

    def _in_period(self, turns: Ints) -> tuple[Ints, Ints]:
        """Go down from the root to the leaves with turns that are less than the root weighs."""
        nodes, numbers = np.empty_like(turns), np.empty_like(turns)
        parts = [(self._root, np.arange(len(turns)), turns)]
        while parts:  # a fork with many turns shares them by itself, because a division by one number takes less time
            node, places, own = parts.pop()
            if node < self._count or len(own) < MANY_TURNS:
                nodes[places], numbers[places] = node, own
                continue
            before, is_left = self._left_turns(node, own)
            for side, chosen, turn in ((0, is_left, before), (1, ~is_left, own - before)):
                inside = np.flatnonzero(chosen)
                parts.append((int(self._sides[node, side]), places[inside], turn[inside]))
        places, own, forks = np.arange(len(turns)), numbers, nodes
        while len(going := np.flatnonzero(forks >= self._count)):  # the others go down together, one level a step
            places, own, forks = places[going], own[going], forks[going]
            before, is_left = self._left_turns(forks, own)
            own = np.where(is_left, before, own - before)
            forks = self._sides[forks, 1 - is_left]
            numbers[places], nodes[places] = own, forks
        return nodes, numbers

    def _left_turns(self, forks: Ints | slice | int, turns: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the turns of the left side before each turn of a fork, and whether it has this one.

        The turns are less than the fork weighs, so that the products fit in 64 bits.
        """
        weights, left = self._weights[forks], self._left_weights[forks]
        doubled = turns * (2 * left) + weights
        nearest = doubled // (2 * weights)
        return nearest, doubled - nearest * (2 * weights) >= 2 * (weights - left)

    def first_end(self, rows: Ints) -> int:
        # Go up from turn `rows[k]` of each leaf k; of the turns of the two sides of a fork, the first counts.
        turns = np.concatenate([rows, np.zeros(self._count - 1, np.int64)])
        for forks in self._levels:
            weights, left = self._weights[forks], self._left_weights[forks]
            (left_turns, right_turns), right = turns[self._sides[forks]].T, weights - left
            (left_periods, left_rest), (right_periods, right_rest) = (
                divmod(left_turns, left),
                divmod(right_turns, right),
            )
            turns[forks] = np.minimum(
                left_periods * weights - (2 * left_rest + 1) * weights // (-2 * left) - 1,
                right_periods * weights + (2 * right_rest + 1) * weights // (2 * right),
            )
        return int(turns[self._root])

    def counts(self, position: int) -> Ints:
        periods, rest = divmod(position, int(self._weights[self._root]))
        counts = np.zeros(len(self._weights), np.int64)
        counts[self._root] = rest
        for forks in reversed(self._levels):
            before, _ = self._left_turns(forks, counts[forks])
            counts[self._sides[forks]] = np.stack([before, counts[forks] - before], axis=1)
        counts[: self._count] += periods * self._weights[: self._count]
        return counts[: self._count]


_KEY_BITS = 32
_LEAF_MASK = 2**_KEY_BITS - 1


class ShuffledTurns:
    """The turns of another order, permuted at random within blocks of `SHUFFLED_TURNS` and between its edges.

    Attributes:
        end: the last block ends here, and no turn after it is used.
    """

    def __init__(self, turns: FixedTurns, key: Key, end: float = math.inf) -> None:
        self.end = end
        self._edges = turns.edges
        self._turns = turns
        self._key = key
        self._blocks: dict[int, Ints] = {}

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        if not len(positions):
            return index_array(positions), index_array(positions)
        if isinstance(positions, range):
            first, stop = positions.start // SHUFFLED_TURNS, -(-positions.stop // SHUFFLED_TURNS)
            inside = slice(positions.start - first * SHUFFLED_TURNS, positions.stop - first * SHUFFLED_TURNS)
            sources, turns = self._table(range(first, stop))
            return sources[inside], turns[inside]
        numbers = positions // SHUFFLED_TURNS
        distinct, rows = np.unique(numbers, return_inverse=True)
        places = rows * SHUFFLED_TURNS + positions % SHUFFLED_TURNS
        sources, turns = self._table(distinct.tolist())
        return sources[places], turns[places]

    def _table(self, numbers: Sequence[int]) -> Ints:
        """Return the inputs and the turns of these blocks, which are in order."""
        kept = self._blocks
        missing = [number for number in numbers if number not in kept]
        if len(missing) + len(kept) > MAX_BLOCKS_KEPT:
            missing, kept = list(numbers), {}
        blocks = kept | dict(zip(missing, self._shuffled(missing), strict=True))
        self._blocks = blocks  # a new dict, because other threads may read the last one
        return np.concatenate([blocks[number] for number in numbers], axis=1)

    def _shuffled(self, numbers: list[int]) -> list[Ints]:
        """The inputs and the turns of each of these blocks."""
        if not numbers:
            return []
        starts = [number * SHUFFLED_TURNS for number in numbers]
        in_order, turns_in_order = self._turns_of_blocks(starts)
        shuffled, turns = in_order.copy(), np.empty_like(turns_in_order)
        generators = Generators(self._key)
        for place, (number, start) in enumerate(zip(numbers, starts, strict=True)):
            generator = generators.at(number)
            stop = int(min(start + SHUFFLED_TURNS, self.end))
            first, last = np.searchsorted(self._edges, [start + 1, stop])
            for begin, end in pairwise([start, *self._edges[first:last].tolist(), stop]):
                used = slice(place * SHUFFLED_TURNS + begin - start, place * SHUFFLED_TURNS + end - start)
                shuffled[used] = generator.permutation(in_order[used])
        # The turns of each input keep their order. An input has as many turns in a block as before, so its turns stay
        # in their blocks even if all blocks are sorted at once.
        turns[stable_order(shuffled, MAX_INPUTS)] = turns_in_order[stable_order(in_order, MAX_INPUTS)]
        return np.split(np.stack([shuffled, turns]), len(numbers), axis=1)

    def _turns_of_blocks(self, starts: list[int]) -> tuple[Ints, Ints]:
        """The inputs and the turns of blocks that begin at these positions, before they are shuffled."""
        first, stop = starts[0], starts[-1] + SHUFFLED_TURNS
        if stop - first == len(starts) * SHUFFLED_TURNS:
            return self._turns.at(range(first, stop))
        return self._turns.at((np.array(starts)[:, None] + np.arange(SHUFFLED_TURNS)).ravel())


def check_weights(weights: object, count: int, names: Sequence[str] = (), name: str = "weights") -> tuple[float, ...]:
    """Check the weights of `count` pipes, by name if they have `names`; errors call the weights `name`."""
    if names:
        weights = _in_order(weights, names, name)
    try:
        values = cast("Sequence[float]", weights)
        numbers = tuple(value if isinstance(value, int) else float(value) for value in values)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"`{name}` must be numbers, one for each pipe, but got: {weights!r:.80}; weights that change are a "
            "dict by row"
        ) from None
    if len(numbers) != count:
        raise ArgumentError(
            f"`{name}` must have a number for each of the {count} pipes, this one first, but has {len(numbers)}"
        )
    if not all(math.isfinite(number) and number >= 0 for number in numbers) or not sum(numbers):
        raise ArgumentError(f"`{name}` must be >= 0, and one of them > 0, but got: {list(numbers)}")
    return numbers


def _in_order(weights: object, names: Sequence[str], name: str) -> list[object]:
    """The weights of pipes in the order of their names."""
    if not isinstance(weights, Mapping):
        raise ArgumentTypeError(f"`{name}` must be a dict by name, as the pipes have names, but got: {weights!r:.80}")
    by_name = cast("Mapping[str, object]", weights)
    unknown, missing = (sorted(map(repr, those)) for those in ({*by_name} - {*names}, {*names} - {*by_name}))
    if unknown or missing:
        wrong = f"none of {', '.join(missing)}" if missing else f"{', '.join(unknown)} besides"
        raise ArgumentError(f"`{name}` must have the names {', '.join(map(repr, names))}, but has {wrong}")
    return [by_name[each] for each in names]


def whole_weights(weights: Sequence[float]) -> npt.NDArray[Any]:
    """Return whole numbers in the proportion of the weights as decimals: 7 and 3 for 0.7 and 0.3.

    They are Python's numbers if their sum does not fit in 64 bits.
    """
    exact = [Fraction(repr(float(weight))) for weight in weights]
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    divisor = math.gcd(*whole)
    whole = [weight // divisor for weight in whole]
    return np.array(whole, np.int64 if sum(whole) < 2**62 else object)


def rounded_weights(whole: npt.NDArray[Any], most: int = MAX_TOTAL) -> Ints:
    """Return numbers > 0 in the proportion of whole numbers > 0, whose sum is about `most` at most."""
    whole = whole // np.gcd.reduce(whole)
    total = int(whole.sum())
    if total > most:
        whole = np.array([max(1, round(weight * most / total)) for weight in whole.tolist()])
    return whole.astype(np.int64)


class Stretch(NamedTuple):
    """The turns of some rows.

    Attributes:
        sources: the inputs that have turns.
        counts: the number of turns of each of them.
        places: the place of the row of each turn among all rows, with those of the first input first, and so on.
    """

    sources: Ints
    counts: Ints
    places: Ints

    @staticmethod
    def of(sources: Ints) -> Stretch:
        """The turns of these inputs, one after the other."""
        order = stable_order(sources, MAX_INPUTS)  # its cost does not depend on the number of inputs
        in_order = sources[order]
        edges = np.concatenate([[0], np.flatnonzero(in_order[1:] != in_order[:-1]) + 1, [len(order)]])
        return Stretch(in_order[edges[:-1]], np.diff(edges), inverse(order))


class TurnWindow:
    """The turns from position `start` to `stop`, computed at once."""

    def __init__(self, turns: Turns, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop
        self._sources, self._turns = turns.at(range(start, stop))

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        """As that of the turns, for positions inside."""
        if isinstance(positions, range):
            inside = slice(positions.start - self.start, positions.stop - self.start)
            return self._sources[inside], self._turns[inside]
        return self._sources[positions - self.start], self._turns[positions - self.start]

    def turn(self, position: int) -> tuple[int, int]:
        """Return the input whose turn it is, and the number of its turns before."""
        return int(self._sources[position - self.start]), int(self._turns[position - self.start])

    def first_missing(self, start: int, stop: int, ends: Ints) -> int:
        """Return the first position from `start` on at which input k has turn `ends[k]` or a later one, else `stop`."""
        size = 64
        while start < stop:
            part = slice(start - self.start, min(start + size, stop) - self.start)
            is_missing = self._turns[part] >= ends[self._sources[part]]
            first = int(is_missing.argmax())
            if is_missing[first]:
                return start + first
            start, size = start + size, 4 * size
        return stop
