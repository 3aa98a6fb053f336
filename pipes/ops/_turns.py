"""`Turns`: the input of a mixture that gives the row at each position, in closed form."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.context import Generators, Key
from ..core.rows import Indices, index_array, stable_order
from ..errors import ArgumentError, ArgumentTypeError, with_call_site

Ints = npt.NDArray[np.int64]
N = TypeVar("N", int, Ints)

MAX_TOTAL = 2**30
"""Weights are rounded so that their sum is about this at most: products of two such numbers fit in 64 bits."""
SHUFFLED_TURNS = 1024
"""Random turns are those of the fixed order, permuted within blocks of this length."""
MAX_BLOCKS_KEPT = 128
"""Blocks of random turns in memory, for rows that are asked for in another order: 2 MiB."""
MAX_INPUTS = 2**16
"""A mixture has fewer inputs."""


class Turns(Protocol):
    """An endless order of the turns of inputs, which are numbered from 0."""

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        """Return the input whose turn it is at each position, and the number of its turns before.

        A `range` of positions takes less time.
        """
        ...


class FixedTurns(Turns, Protocol):
    """Turns in an order that is not random."""

    def position(self, source: int, turn: int) -> int:
        """Return the position of turn number `turn` of an input; the first is number 0."""
        ...

    def counts(self, position: int) -> list[int]:
        """Return the number of turns of each input before `position`."""
        ...


@dataclass(frozen=True)
class EqualTurns:
    """One turn of each of `count` inputs after the other."""

    count: int

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        turns, sources = np.divmod(index_array(positions), self.count)
        return sources, turns

    def position(self, source: int, turn: int) -> int:
        return turn * self.count + source

    def counts(self, position: int) -> list[int]:
        return [(position - source + self.count - 1) // self.count for source in range(self.count)]


class WeightedTurns:
    """Turns in proportion to weights.

    The inputs are the leaves of a binary tree. Each inner node shares its turns between its two sides: of its first i
    turns, the left side has i times its part of the weight, rounded to the nearest. So the turns at any position follow
    from a few divisions. The tree is that of Huffman's code, in which a node weighs at most half as much as the parent
    of its parent. The errors of rounding therefore add up to less than two turns, for any weights and at any position.

    Source: D. A. Huffman, "A Method for the Construction of Minimum-Redundancy Codes" (1952).
    """

    def __init__(self, weights: Sequence[float]) -> None:
        heap = [(weight, number, _Leaf(number)) for number, weight in enumerate(whole_weights(weights))]
        self._root: _Leaf | _Fork = heap[0][2]
        nodes: list[tuple[int, int, _Leaf | _Fork]] = list(heap)
        heapq.heapify(nodes)
        while len(nodes) > 1:
            light, heavy = heapq.heappop(nodes), heapq.heappop(nodes)
            left, right = sorted([light, heavy], key=lambda node: (-node[0], node[1]))
            total = light[0] + heavy[0]
            self._root = _Fork(left[2], right[2], left[0], total)
            heapq.heappush(nodes, (total, min(light[1], heavy[1]), self._root))
        self._ways: dict[int, list[tuple[_Fork, bool]]] = {}  # from each leaf up to the root
        self._find_ways(self._root, [])

    def _find_ways(self, node: _Leaf | _Fork, way: list[tuple[_Fork, bool]]) -> None:
        if isinstance(node, _Leaf):
            self._ways[node.source] = way[::-1]
            return
        self._find_ways(node.left, [*way, (node, True)])
        self._find_ways(node.right, [*way, (node, False)])

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        sources, turns = np.empty(len(positions), np.int64), np.empty(len(positions), np.int64)
        parts: list[tuple[_Leaf | _Fork, Ints | slice, Indices]] = [(self._root, slice(None), positions)]
        while parts:
            node, places, own = parts.pop()
            if isinstance(node, _Leaf):
                sources[places], turns[places] = node.source, index_array(own)
                continue
            for child, inside, turn in node.sides(own):
                parts.append((child, inside if isinstance(places, slice) else places[inside], turn))
        return sources, turns

    def position(self, source: int, turn: int) -> int:
        for fork, is_left in self._ways[source]:
            turn = fork.position(turn, is_left=is_left)
        return turn

    def counts(self, position: int) -> list[int]:
        counts: dict[int, int] = {}
        nodes: list[tuple[_Leaf | _Fork, int]] = [(self._root, position)]
        while nodes:
            node, count = nodes.pop()
            if isinstance(node, _Leaf):
                counts[node.source] = count
            else:
                left, _ = node.left_turns(count)
                nodes += (node.left, left), (node.right, count - left)
        return [counts[source] for source in range(len(counts))]


@dataclass(frozen=True)
class _Leaf:
    source: int


@dataclass(frozen=True)
class _Fork:
    """An inner node: `weight` of `total` is that of the left side."""

    left: _Leaf | _Fork
    right: _Leaf | _Fork
    weight: int
    total: int

    def sides(self, turns: Indices) -> Iterator[tuple[_Leaf | _Fork, Ints, Indices]]:
        """Give for each side its child, the places of its turns among these of the node, and their numbers there."""
        if isinstance(turns, range):
            # Turns of the node that follow each other are turns of each side that follow each other.
            left_start, left_stop = (int(self.left_turns(turn)[0]) for turn in (turns.start, turns.stop))
            own = (
                range(left_start, left_stop),
                range(turns.start - left_start, turns.stop - left_stop),
            )
            is_left = self._are_left(turns)
            for side, chosen, numbers in ((self.left, is_left, own[0]), (self.right, ~is_left, own[1])):
                yield side, np.flatnonzero(chosen), numbers
            return
        before, is_left = self.left_turns(turns)
        for side, chosen, turn in ((self.left, is_left, before), (self.right, ~is_left, turns - before)):
            inside = np.flatnonzero(chosen)
            yield side, inside, turn[inside]

    def _are_left(self, turns: range) -> npt.NDArray[np.bool_]:
        """Return whether the left side has each of neighbouring turns, which repeat after `total` of them."""
        period = index_array(range(turns.start, turns.start + min(self.total, len(turns))))
        is_left = self.left_turns(period)[1]
        return np.tile(is_left, -(-len(turns) // max(1, len(is_left))))[: len(turns)]

    def left_turns(self, turns: N) -> tuple[N, npt.NDArray[np.bool_]]:
        """Return, for each turn of this node, the turns of the left side before it, and whether it is one of them."""
        whole = turns // self.total  # a remainder keeps the products small, and NumPy's own is slow
        doubled = (turns - whole * self.total) * (2 * self.weight) + self.total
        nearest = doubled // (2 * self.total)
        is_left = doubled - nearest * (2 * self.total) >= 2 * (self.total - self.weight)
        return whole * self.weight + nearest, np.asarray(is_left)

    def position(self, turn: int, *, is_left: bool) -> int:
        """Return the turn of this node that is turn `turn` of one of its sides."""
        if is_left:
            return -((2 * turn + 1) * self.total // (-2 * self.weight)) - 1
        return (2 * turn + 1) * self.total // (2 * (self.total - self.weight))


class ShuffledTurns:
    """The turns of another order, permuted at random within blocks of `SHUFFLED_TURNS`.

    Attributes:
        end: the last block ends here, and no turn behind it is used.
    """

    def __init__(self, turns: Turns, key: Key, end: float = math.inf) -> None:
        self.end = end
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
        low, high = int(numbers.min()), int(numbers.max()) + 1
        if high - low <= len(numbers):
            blocks, places = range(low, high), positions - low * SHUFFLED_TURNS
        else:
            found, rows = np.unique(numbers, return_inverse=True)
            blocks, places = found.tolist(), rows * SHUFFLED_TURNS + positions % SHUFFLED_TURNS
        sources, turns = self._table(blocks)
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
            used = slice(place * SHUFFLED_TURNS, place * SHUFFLED_TURNS + int(min(SHUFFLED_TURNS, self.end - start)))
            shuffled[used] = generators.at(number).permutation(in_order[used])
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


def check_weights(weights: object, count: int) -> tuple[float, ...]:
    """Check the weights of `count` pipes."""
    try:
        values = cast("Sequence[float]", weights)
        numbers = tuple(value if isinstance(value, int) else float(value) for value in values)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            with_call_site(f"`weights` must be numbers, or a function of the epoch, but got: {weights!r:.80}")
        ) from None
    if len(numbers) != count:
        raise ArgumentError(
            with_call_site(
                f"`weights` must have a number for each of the {count} pipes, this one first, but has {len(numbers)}"
            )
        )
    if not all(math.isfinite(number) and number >= 0 for number in numbers) or not sum(numbers):
        raise ArgumentError(with_call_site(f"`weights` must be >= 0, and one of them > 0, but got: {list(numbers)}"))
    return numbers


def whole_weights(weights: Sequence[float]) -> list[int]:
    """Return whole numbers > 0 in the proportion of the weights as decimals: 7 and 3 for 0.7 and 0.3."""
    exact = [Fraction(repr(float(weight))) for weight in weights]
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    divisor = math.gcd(*whole)
    whole = [weight // divisor for weight in whole]
    total = sum(whole)
    return whole if total <= MAX_TOTAL else [max(1, round(weight * MAX_TOTAL / total)) for weight in whole]


WINDOW = 8192
"""Turns that are computed at once."""


class Stretch(NamedTuple):
    """Turns at neighbouring positions.

    Attributes:
        firsts: the number of the first turn of each input.
        counts: the number of turns of each input.
        places: the place of the row of each turn among all rows, with those of the first input first, and so on.
    """

    firsts: Ints
    counts: Ints
    places: Ints

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Give each input that has turns, the number of the first of them, and their count."""
        for source, (first, count) in enumerate(zip(self.firsts.tolist(), self.counts.tolist(), strict=True)):
            if count:
                yield source, first, count


class TurnWindow:
    """The turns around a position, computed at once: from a multiple of `WINDOW` on, and before `end`.

    Attributes:
        start, stop: the first position, and the one behind the last.
    """

    def __init__(self, turns: Turns, inputs: int, position: int, end: float = math.inf) -> None:
        self.start = position - position % WINDOW
        self.stop = int(min(self.start + WINDOW, end))
        self._inputs = inputs
        self._sources, self._turns = turns.at(range(self.start, self.stop))

    def source(self, position: int) -> int:
        """The input whose turn it is."""
        return int(self._sources[position - self.start])

    def stretch(self, start: int, stop: int, at_hand: Sequence[int] | None = None) -> Stretch:
        """Return the turns from `start` to `stop`, up to the first whose row is not at hand."""
        inside = slice(start - self.start, stop - self.start)
        sources, turns = self._sources[inside], self._turns[inside]
        firsts = np.zeros(self._inputs, np.int64)
        firsts[sources[::-1]] = turns[::-1]  # the last value that is assigned remains
        if at_hand is not None:
            is_missing = turns >= (firsts + at_hand)[sources]
            if is_missing.any():
                end = int(is_missing.argmax())
                sources, turns = sources[:end], turns[:end]
        counts = np.bincount(sources, minlength=self._inputs)
        return Stretch(firsts, counts, turns - (firsts - np.cumsum(counts) + counts)[sources])
