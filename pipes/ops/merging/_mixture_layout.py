"""`MixtureLayout`: where each row of a mixture of indexed inputs comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...core.context import Context
from ._turn_windows import Stretch, TurnWindow
from ._turns import Ints, Turns


class MixtureSegment(NamedTuple):
    """The rows from the end of one input to that of the next.

    Attributes:
        start, stop: the positions of these rows.
        sources: the inputs that they come from, by their number among the turns.
        given, given_after: how many rows each input has given before them, and with them.
        turns: whose turn it is at each position, from `start` on.
    """

    start: int
    stop: int
    sources: Ints
    given: Ints
    given_after: tuple[int, ...]
    turns: Turns


class MixtureLayout:
    """All rows of the inputs one after the other, in parts: one for each input, or for each round of an input.

    Attributes:
        bounds: part k holds the places `bounds[k]` to `bounds[k + 1]`.
        segments: of the rows that come out; `starts` are their first positions.
    """

    def __init__(self, lengths: Sequence[int], segments: Sequence[MixtureSegment], *, repeats: bool) -> None:
        rounds = [1] * len(lengths)
        if repeats:
            for k in segments[0].sources.tolist():
                rounds[k] = -(-segments[0].given_after[k] // lengths[k])
        self.segments = segments
        self.starts = np.array([segment.start for segment in segments])
        self._repeats = repeats
        self._parts = [(source, round_) for source, count in enumerate(rounds) for round_ in range(count)]
        self.bounds = np.cumsum([0, *(lengths[source] for source, _ in self._parts)], dtype=np.int64)
        self._first_places = self.bounds[np.cumsum([0, *rounds[:-1]])]
        self._window: tuple[int, TurnWindow] | None = None  # the one used last, and its segment

    def part(self, number: int, context: Context) -> tuple[int, Context]:
        """The input of a part, and the context to read it in."""
        source, round_ = self._parts[number]
        return source, context.round(round_) if self._repeats else context

    def places(self, positions: Ints) -> Ints:
        """Where the rows at `positions` are."""
        if len(self.segments) == 1:
            return self._places_in(0, positions)
        numbers = np.searchsorted(self.starts, positions, "right") - 1
        places = np.empty_like(positions)
        for number in np.unique(numbers).tolist():
            inside = np.flatnonzero(numbers == number)
            places[inside] = self._places_in(number, positions[inside])
        return places

    def _places_in(self, number: int, positions: Ints) -> Ints:
        """The places of the rows at `positions`, which are in one segment."""
        segment = self.segments[number]
        sources, before = segment.turns.at(positions - segment.start)
        own = segment.sources[sources]
        places: Ints = self._first_places[own] + segment.given[own] + before
        return places

    def stretches(self, positions: range) -> Iterator[tuple[list[tuple[int, range]], Ints]]:
        """Neighbouring rows: parts and the rows of them, and where each of the rows is among these."""
        start = positions.start
        while start < positions.stop:
            number = int(np.searchsorted(self.starts, start, "right")) - 1
            segment = self.segments[number]
            window = self._window_at(number, start - segment.start)
            stop = min(positions.stop, segment.start + window.stop)
            stretch = window.stretch(start - segment.start, stop - segment.start)
            yield list(self._parts_of(segment, stretch)), stretch.places
            start = stop

    def _window_at(self, number: int, position: int) -> TurnWindow:
        last = self._window
        if last is not None and last[0] == number and last[1].start <= position < last[1].stop:
            return last[1]
        segment = self.segments[number]
        window = TurnWindow(segment.turns, len(segment.sources), position, segment.stop - segment.start)
        self._window = number, window
        return window

    def _parts_of(self, segment: MixtureSegment, stretch: Stretch) -> Iterator[tuple[int, range]]:
        for source, first, count in stretch.parts():
            own = segment.sources[source]
            place = int(self._first_places[own] + segment.given[own]) + first
            stop = place + count
            while place < stop:
                part = int(np.searchsorted(self.bounds, place, "right")) - 1
                start, end = int(self.bounds[part]), min(stop, int(self.bounds[part + 1]))
                yield part, range(place - start, end - start)
                place = end
