"""`TurnWindow`: the turns of a mixture at many positions, which are computed at once and used a stretch at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ._turns import Ints, Turns

WINDOW = 8192
"""Turns that are computed at once."""


class Stretch(NamedTuple):
    """Turns at neighbouring positions.

    Attributes:
        firsts: the number of the first turn of each input.
        counts: how many turns each input has.
        places: for each turn, where its row is if those of the first input stand before those of the second, and so on.
    """

    firsts: Ints
    counts: Ints
    places: Ints

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Each input that has turns, the number of its first, and how many they are."""
        for source, (first, count) in enumerate(zip(self.firsts.tolist(), self.counts.tolist(), strict=True)):
            if count:
                yield source, first, count


class TurnWindow:
    """The turns from a multiple of `WINDOW` on, around a position and before `end`.

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
        """The turns from `start` to `stop`, but no more of an input than there are rows of it at hand."""
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
