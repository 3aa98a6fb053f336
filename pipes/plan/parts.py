"""`Part`: which places of a stream a run reads; `divide_rest`: what nobody has opened of a stream, divided anew.

A **stream** is what is divided among shards at one place of the graph. Its **places** are its rows, or units of work.
If they are known beforehand, they lie on a **line**: those that shard 0 of the first division has, then those of
shard 1, and so on. If they are not, the stream is read row by row, and a place is the number of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from ..core.cursor import Cursor, Json
from ..core.meter import Mark
from .pieces import Numbers


class Segment(NamedTuple):
    """The places start, start + step, ... before stop; up to the end of the stream if that is None.

    Attributes:
        cursor: of a stream that is read row by row: a cursor at `start` or before it.
    """

    start: int
    stop: int | None
    step: int = 1
    cursor: Json = None

    @property
    def length(self) -> int | None:
        """How many places there are, if that is known."""
        return None if self.stop is None else len(range(self.start, self.stop, self.step))

    def after(self, places: int) -> Segment:
        """Without the first places."""
        return self._replace(start=self.start + places * self.step)

    def first(self, places: int) -> Segment:
        """Only the first places."""
        return self._replace(stop=self.start + places * self.step)


class Line(NamedTuple):
    """The places of a stream in one round, if they are known.

    Attributes:
        bounds: shard v of the first division has the places `bounds[v]` to `bounds[v + 1]`.
        weights: makes the weights of all places; None if they are equal.
        rows: makes the numbers of rows of all places; None if each is one row, and the result is None if not known.
    """

    bounds: Numbers
    weights: Callable[[], Numbers] | None = None
    rows: Callable[[], Numbers | None] | None = None

    @property
    def size(self) -> int:
        return int(self.bounds[-1])

    def by_shard(self, segments: Iterable[Segment]) -> list[tuple[int, int, int]]:
        """The segments as (shard, first, stop), in places of each shard of the first division."""
        parts: list[tuple[int, int, int]] = []
        for segment in segments:
            start, stop = segment.start, cast("int", segment.stop)
            while start < stop:
                shard = int(np.searchsorted(self.bounds, start, "right")) - 1
                first, end = int(self.bounds[shard]), min(stop, int(self.bounds[shard + 1]))
                parts.append((shard, start - first, end - first))
                start = end
        return parts


def default_segments(line: Line | None, shards: int, shard: int) -> list[Segment]:
    """What a shard has of a whole stream. With another number of shards than at first, the line is cut evenly."""
    if line is None:
        return [Segment(shard, None, shards)]
    if shards == len(line.bounds) - 1:
        return [Segment(int(line.bounds[shard]), int(line.bounds[shard + 1]))]
    start, stop = _borders([Segment(0, line.size)], line, shards)[shard : shard + 2]
    return [Segment(start, stop)] if start < stop else []


@dataclass(frozen=True)
class Part:
    """Which places of a stream a run reads.

    Attributes:
        listed: the segments in some rounds of the `repeat` around.
        later: in all rounds behind those, the places of this shard of so many; none if it is None.
        until: round, segment and places at which the run ends; None if it does not end before.
    """

    listed: tuple[tuple[int, tuple[Segment, ...]], ...] = ()
    later: tuple[int, int] | None = None
    until: tuple[int, int, int] | None = None

    def segments(self, number: int, line: Line | None) -> list[Segment]:
        """The segments in a round."""
        rounds = dict(self.listed)
        if number in rounds:
            segments = list(rounds[number])
        elif self.later is not None and number > max(rounds, default=-1):
            segments = default_segments(line, *self.later)
        else:
            segments = []
        if self.until is None or number < self.until[0]:
            return segments
        return first_places(segments, *self.until[1:]) if number == self.until[0] else []

    def rest(self, number: int, mark: Mark | None, line: Line | None) -> list[Segment]:
        """The segments in a round that are not open, if all before `mark` is."""
        segments = self.segments(number, line)
        if mark is None or number > cast("int", mark[0]):
            return segments
        return places_after(segments, mark) if number == mark[0] else []


def first_places(segments: Sequence[Segment], number: int, places: int) -> list[Segment]:
    """The places before a mark; `places` may go on into later segments."""
    first = list(segments[:number])
    for segment in segments[number:]:
        count = segment.length
        taken = places if count is None else min(places, count)
        if taken:
            first.append(segment.first(taken))
        places -= taken
    return first


def places_after(segments: Sequence[Segment], mark: Mark) -> list[Segment]:
    """What `first_places` leaves."""
    _, number, places, *cursor = cast("tuple[int, int, int, Json]", tuple(mark))
    rest: list[Segment] = []
    for segment in segments[number:]:
        count = segment.length
        taken = places if count is None else min(places, count)
        if count is None or taken < count:
            segment = segment.after(taken)
            rest.append(segment._replace(cursor=cursor[0]) if taken and cursor else segment)
        places -= taken
    return rest


def divide_rest(rest: Sequence[Segment], line: Line | None, shards: int) -> list[list[Segment]]:
    """Divides what is left of a stream among new shards: a known one by weight, another row by row."""
    segments = sorted((s for s in rest if s.stop is None or s.start < s.stop), key=lambda s: (s.start, s.stop or 0))
    if line is None:
        return _divide_rows(segments, shards)
    return _cut(segments, _borders(segments, line, shards))


def _borders(segments: Sequence[Segment], line: Line, shards: int) -> list[int]:
    """How many of the places of all segments the first shards have together."""
    if line.weights is None:
        total = sum(cast("int", segment.length) for segment in segments)
        return [total * shard // shards for shard in range(shards + 1)]
    weights = line.weights()
    own = np.concatenate([np.zeros(0, np.int64), *(weights[segment.start : segment.stop] for segment in segments)])
    ends = np.cumsum(own, dtype=np.float64)
    share = float(ends[-1]) / shards if len(ends) else 0.0
    borders = np.searchsorted(ends - own / 2, np.arange(1, shards) * share)
    return [0, *borders.tolist(), len(own)]


def _cut(segments: Sequence[Segment], borders: Sequence[int]) -> list[list[Segment]]:
    """The segments, end to end, cut at so many places."""
    parts: list[list[Segment]] = []
    waiting = list(reversed(segments))
    for start, stop in pairwise(borders):
        room, part = stop - start, list[Segment]()
        while room:
            segment = waiting.pop()
            count = cast("int", segment.length)
            taken = min(room, count)
            part.append(segment if taken == count else segment.first(taken))
            if taken < count:
                waiting.append(segment.after(taken))
            room -= taken
        parts.append(_joined(part))
    return parts


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbouring segments as one."""
    joined: list[Segment] = []
    for segment in segments:
        if joined and segment.step == joined[-1].step == 1 and joined[-1].stop == segment.start:
            joined[-1] = joined[-1]._replace(stop=segment.stop)
        else:
            joined.append(segment)
    return joined


def _divide_rows(rest: Sequence[Segment], shards: int) -> list[list[Segment]]:
    """Divides rows whose number is not known: all from some row on in turn, and the holes before it evenly."""
    endless = [segment for segment in rest if segment.stop is None]
    holes = [segment for segment in rest if segment.stop is not None]
    if sum(Fraction(1, segment.step) for segment in endless) != 1:
        # A shard has ended, so nobody knows which rows it has left: the others hand on theirs as they are.
        parts = _cut(holes, _counts(holes, shards))
        for number, segment in enumerate(endless):
            parts[number % shards].append(segment)
        return parts
    # All rows from this one on are left.
    edge = max([0, *(s.start - s.step + 1 for s in endless), *(cast("int", s.stop) for s in holes)])
    cursors = [s.cursor for s in endless if s.cursor is not None and Cursor.of(s.cursor).position <= edge]
    cursor = max(cursors, key=lambda plain: Cursor.of(plain).position, default=None)
    holes += [segment._replace(stop=edge) for segment in endless if segment.start < edge]
    holes.sort(key=lambda segment: segment.start)
    parts = _cut(holes, _counts(holes, shards))
    for shard, part in enumerate(parts):
        part.append(Segment(edge + shard, None, shards, cursor))
    return parts


def _counts(segments: Sequence[Segment], shards: int) -> list[int]:
    total = sum(cast("int", segment.length) for segment in segments)
    return [total * shard // shards for shard in range(shards + 1)]
