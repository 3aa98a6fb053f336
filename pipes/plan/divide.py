"""`divide`: the units and parts of units that each shard reads; `divide_rest`: the same of what nobody has opened.

A **stream** is the data that is divided among shards at one place of the graph. Its **places** are its rows, or units
of work. If they are known beforehand, they lie on a **line**: those of shard 0 of the first division, then those of
shard 1, and so on. If not, the stream is read row by row, and a place is the number of a row.

If the number of ranks changes in a pass, a shard that has begun ends with what it has opened, and the rest is divided
again. So a shard then has a list of **open runs**, one after the other. Each is the graph of one shard over some parts
of the streams.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.context import Mark, Marks, RowShare
from ..core.cursor import Cursor, Json

Numbers = npt.NDArray[np.int64]
SLOTS_PER_SHARE = 128
"""Slots in a mean share of a unit that is divided: parts are right to half of that, 1/256 of the mean."""
MAX_SLOTS = 2**20
GOLDEN_RATIO = (5**0.5 - 1) / 2
MAX_WEIGHT_BITS = 40
"""Weights are scaled so that their sum has no more bits: its products with two small numbers fit in 64."""
SHARDS_SIDE_BY_SIDE = 8
"""A rank has eight shards by default. Neighbours on the line go to one rank, so the errors of their cuts cancel."""


def divide(weights: Numbers, shards: int, *, any_order: bool, near: int) -> Pieces:
    """Divide units among shards: the weights nearly even, and few units read by several shards.

    In any order, the units lie on a line that is cut at equal weights. In the order of the source, each unit goes to
    the shard that has least, so that all shards move through the source together; what fits none is cut. A unit that
    is larger than a share is always cut.

    Args:
        weights: of the units by place.
        any_order: a shard may read its units in another order than that of their places.
        near: a cut nearer than 1 / `near` of a share to the border of a unit goes to the border.
    """
    count = len(weights)
    if not count or (weights == weights[0]).all():
        return _equal(count, shards, near)
    if (excess := int(weights.sum()).bit_length() - MAX_WEIGHT_BITS) > 0:
        weights = weights >> excess
    mean = max(1, int(weights.sum()) // shards)
    slots = np.clip(-(-weights * SLOTS_PER_SHARE // mean), 1, MAX_SLOTS)
    if not any_order and int(weights.max()) <= mean:
        return _in_turn(weights, slots, shards, near)
    borders = np.arange(shards + 1) * int(weights.sum()) // shards
    spans, *parts = _divide_at(weights, slots, borders, mean // near)
    owners = _owners(shards)[spans]
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
        cut = np.flatnonzero(self.slots > 1)  # in a whole unit, each turn is complete
        slots, first, stop = self.slots[cut], self.first[cut], self.stop[cut]
        rest = output[cut] % slots
        output //= self.slots
        output *= self.stop - self.first
        output[cut] += _rows_in_slots(slots, rest, stop) - _rows_in_slots(slots, rest, first)
        return output

    def by_line(self, of_units: Numbers, of_pieces: Numbers) -> Numbers:
        """Values of all pieces in the order of a `Line`: of the units that go round, and of the pieces of the table."""
        in_turn = of_units[: self.rounds * self.shards].reshape(self.rounds, self.shards)
        parts = [
            part
            for shard in range(self.shards)
            for part in (in_turn[:, shard], of_pieces[self.starts[shard] : self.starts[shard + 1]])
        ]
        return np.concatenate(parts)

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


def _equal(count: int, shards: int, near: int) -> Pieces:
    """Divide units of one weight: whole rounds of them, then equal parts of the rest."""
    rounds, left = divmod(count, shards)
    weights = np.full(left, shards)  # so that a share of all is `count`, and of what is left `left`
    slots = np.full(left, min(shards, -(-SLOTS_PER_SHARE * shards // max(1, count))))
    spans, places, *parts = _divide_at(weights, slots, np.arange(shards + 1) * left, count // near)
    return _table(shards, rounds, _owners(shards)[spans], places + rounds * shards, *parts, by_place=False)


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


def _owners(shards: int) -> Numbers:
    """The shard of each span of a line."""
    side = SHARDS_SIDE_BY_SIDE if shards % SHARDS_SIDE_BY_SIDE == 0 else 1
    spans = np.arange(shards)
    return spans % side * (shards // side) + spans // side


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


def _rows_in_slots(slots: Numbers, rows: Numbers, stop: Numbers) -> Numbers:
    """The number of the first `rows` rows that lie in the slots below `stop`, for units of fewer rows than slots.

    Slot s has row `s * inverse % slots`. If `s * inverse` is `q * slots + row`, `(s * inverse + slots) // slots` is
    q + 1, and `(s * inverse + slots - rows) // slots` is q if the row is one of these rows, else q + 1. So the
    difference of two sums counts them.
    """
    distinct, places = np.unique(slots, return_inverse=True)
    inverse = np.array([pow(step_of(n), -1, n) for n in distinct.tolist()], np.int64)[places]
    counts: Numbers = _sum_of_quotients(stop, inverse, slots, slots) - _sum_of_quotients(
        stop, inverse, slots - rows, slots
    )
    return counts


def _sum_of_quotients(count: Numbers, factor: Numbers, offset: Numbers, divisor: Numbers) -> Numbers:
    """The sums of `(factor * x + offset) // divisor` over all x below `count`, by the steps of Euclid's algorithm.

    No step makes a count larger, and no term is negative. So 64 bits are enough if no number is above 2**31: a product
    of two is below 2**62, and no term is larger than the sum, which is at most `count * (divisor + 1)`.

    Source: Graham, Knuth, Patashnik, "Concrete Mathematics", 1994, section 3.5.

    Args:
        count, factor, offset, divisor: at least 0; `factor < divisor`, `offset <= divisor` and `count <= divisor`.
    """
    total = np.zeros_like(count)
    while count.any():
        quotient, factor = np.divmod(factor, divisor)
        total += count * (count - 1) // 2 * quotient
        quotient, offset = np.divmod(offset, divisor)
        total += count * quotient
        count, offset = np.divmod(factor * count + offset, divisor)
        factor, divisor = divisor, np.maximum(factor, 1)  # a factor of 0 leaves no points, and is no divisor
    return total


# Parts of a stream, and the division of what is left of it among other shards.


class Span(NamedTuple):
    """The places start, start + step, ... before `stop`; if that is None, up to the end of the stream.

    Attributes:
        cursor: of a stream that is read row by row: a cursor at `start` or before it.
    """

    start: int
    stop: int | None
    step: int = 1
    cursor: Json = None

    @property
    def length(self) -> int | None:
        """The number of places, if it is known."""
        return None if self.stop is None else len(range(self.start, self.stop, self.step))

    def after(self, places: int) -> Span:
        """Without the first places."""
        return self._replace(start=self.start + places * self.step)

    def first(self, places: int) -> Span:
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

    def by_shard(self, spans: Iterable[Span]) -> list[tuple[int, int, int]]:
        """The spans as (shard, first, stop), in places of each shard of the first division."""
        parts: list[tuple[int, int, int]] = []
        for span in spans:
            start, stop = span.start, cast("int", span.stop)
            while start < stop:
                shard = int(np.searchsorted(self.bounds, start, "right")) - 1
                first, end = int(self.bounds[shard]), min(stop, int(self.bounds[shard + 1]))
                parts.append((shard, start - first, end - first))
                start = end
        return parts


@dataclass(frozen=True)
class Part:
    """The places of a stream that a run reads.

    Attributes:
        listed: the spans in some rounds of the `repeat` around.
        later: shards and shard: in all rounds after those, the run has the part of that shard; None for no part.
        until: round, span and places at which the run ends; None if it does not end before.
    """

    listed: tuple[tuple[int, tuple[Span, ...]], ...] = ()
    later: tuple[int, int] | None = None
    until: tuple[int, int, int] | None = None

    def spans(self, number: int, line: Line | None) -> list[Span]:
        """The spans in a round."""
        rounds = dict(self.listed)
        if number in rounds:
            spans = list(rounds[number])
        elif self.later is not None and number > max(rounds, default=-1):
            spans = default_spans(line, *self.later)
        else:
            spans = []
        if self.until is None or number < self.until[0]:
            return spans
        return first_places(spans, *self.until[1:]) if number == self.until[0] else []

    def rest(self, number: int, mark: Mark | None, line: Line | None) -> list[Span]:
        """The spans in a round that are not open, if all before `mark` is."""
        spans = self.spans(number, line)
        if mark is None or number > cast("int", mark[0]):
            return spans
        return places_after(spans, mark) if number == mark[0] else []


def default_spans(line: Line | None, shards: int, shard: int) -> list[Span]:
    """The part of a shard in a whole stream. With another number of shards than at first, the line is cut evenly."""
    if line is None:
        return [Span(shard, None, shards)]
    if shards == len(line.bounds) - 1:
        return [Span(int(line.bounds[shard]), int(line.bounds[shard + 1]))]
    start, stop = _borders([Span(0, line.size)], line, shards)[shard : shard + 2]
    return [Span(start, stop)] if start < stop else []


def first_places(spans: Sequence[Span], number: int, places: int) -> list[Span]:
    """The places before a mark; `places` may go on into later spans."""
    first = list(spans[:number])
    for span in spans[number:]:
        count = span.length
        taken = places if count is None else min(places, count)
        if taken:
            first.append(span.first(taken))
        places -= taken
    return first


def places_after(spans: Sequence[Span], mark: Mark) -> list[Span]:
    """The places that `first_places` leaves."""
    _, number, places, *cursor = cast("tuple[int, int, int, Json]", tuple(mark))
    rest: list[Span] = []
    for span in spans[number:]:
        count = span.length
        taken = places if count is None else min(places, count)
        if count is None or taken < count:
            span = span.after(taken)
            rest.append(span._replace(cursor=cursor[0]) if taken and cursor else span)
        places -= taken
    return rest


def divide_rest(rest: Sequence[Span], line: Line | None, shards: int) -> list[list[Span]]:
    """Divide the rest of a stream among new shards: by weight if its places are known, else row by row."""
    spans = sorted((s for s in rest if s.stop is None or s.start < s.stop), key=lambda s: (s.start, s.stop or 0))
    if line is None:
        return _divide_rows(spans, shards)
    return _sliced(spans, _borders(spans, line, shards))


def _borders(spans: Sequence[Span], line: Line, shards: int) -> list[int]:
    """The number of places that the first 0, 1, ... shards have together."""
    if line.weights is None:
        return _even_borders(spans, shards)
    weights = line.weights()
    own = np.concatenate([np.zeros(0, np.int64), *(weights[span.start : span.stop] for span in spans)])
    ends = np.cumsum(own, dtype=np.float64)
    share = float(ends[-1]) / shards if len(ends) else 0.0
    borders = np.searchsorted(ends - own / 2, np.arange(1, shards) * share)
    return [0, *borders.tolist(), len(own)]


def _even_borders(spans: Sequence[Span], shards: int) -> list[int]:
    total = sum(cast("int", span.length) for span in spans)
    return [total * shard // shards for shard in range(shards + 1)]


def _sliced(spans: Sequence[Span], borders: Sequence[int]) -> list[list[Span]]:
    """The spans, end to end, cut at these numbers of places."""
    parts: list[list[Span]] = []
    waiting = list(reversed(spans))
    for start, stop in pairwise(borders):
        room, part = stop - start, list[Span]()
        while room:
            span = waiting.pop()
            count = cast("int", span.length)
            taken = min(room, count)
            part.append(span if taken == count else span.first(taken))
            if taken < count:
                waiting.append(span.after(taken))
            room -= taken
        parts.append(_joined(part))
    return parts


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Neighbouring spans as one."""
    joined: list[Span] = []
    for span in spans:
        if joined and span.step == joined[-1].step == 1 and joined[-1].stop == span.start:
            joined[-1] = joined[-1]._replace(stop=span.stop)
        else:
            joined.append(span)
    return joined


def _divide_rows(rest: Sequence[Span], shards: int) -> list[list[Span]]:
    """Divide rows of unknown number: all from some row on in turn, and the holes before it evenly."""
    endless = [span for span in rest if span.stop is None]
    holes = [span for span in rest if span.stop is not None]
    if sum(Fraction(1, span.step) for span in endless) != 1:
        # A shard has ended, so nobody knows its rows that are left: the others pass theirs on as they are.
        parts = _sliced(holes, _even_borders(holes, shards))
        for number, span in enumerate(endless):
            parts[number % shards].append(span)
        return parts
    # All rows from this one on are left.
    edge = max([0, *(s.start - s.step + 1 for s in endless), *(cast("int", s.stop) for s in holes)])
    cursors = [s.cursor for s in endless if s.cursor is not None and Cursor.of(s.cursor).position <= edge]
    cursor = max(cursors, key=lambda plain: Cursor.of(plain).position, default=None)
    holes += [span._replace(stop=edge) for span in endless if span.start < edge]
    holes.sort(key=lambda span: span.start)
    parts = _sliced(holes, _even_borders(holes, shards))
    for shard, part in enumerate(parts):
        part.append(Span(edge + shard, None, shards, cursor))
    return parts


# Redivision: the runs of the shards after the number of ranks has changed in a pass.


@dataclass(frozen=True)
class Redivision:
    """The runs of the shards after the number of ranks has changed.

    Attributes:
        first: the number of shards of the first division of the pass, which defines the places of a stream.
        base: origins of this division begin here: that of shard n is `base` + n.
        digest: of the states that it was made of; the states of a job have the same.
        runs: those of each shard, in order.
    """

    first: int
    base: int
    digest: str
    runs: Mapping[int, tuple[OpenRun, ...]]

    @property
    def plain(self) -> dict[str, Json]:
        """The redivision as JSON."""
        runs: Json = {str(shard): [run.plain for run in runs] for shard, runs in self.runs.items()}
        return {"first": self.first, "base": self.base, "digest": self.digest, "items": runs}

    @staticmethod
    def of(plain: Json) -> Redivision:
        """The redivision that `plain` was made of."""
        values = cast("dict[str, Json]", plain)
        runs = cast("dict[str, list[Json]]", values["items"])
        return Redivision(
            cast("int", values["first"]),
            cast("int", values["base"]),
            cast("str", values["digest"]),
            {int(shard): tuple(OpenRun.of(run) for run in part) for shard, part in runs.items()},
        )

    def all_runs(self) -> Iterator[OpenRun]:
        """All runs, and those whose leftover rows they group."""
        for runs in self.runs.values():
            for run in runs:
                yield from (run, *(run.tail_of or ()))

    def of_shards(self, shards: range) -> Redivision:
        """The redivision with the runs of some shards only."""
        return replace(self, runs={shard: runs for shard, runs in self.runs.items() if shard in shards})


@dataclass(frozen=True)
class OpenRun:
    """A part of a pass that is run as one shard.

    Attributes:
        origin: the key of its draws; no two runs of a pass have the same.
        parts: its part of each stream; None for the parts of shard `origin` of the first division.
        cursor: the place from which it continues; None if it has not begun.
        marks: of what it has opened before that.
        leftover: if it has ended, the cursor of its leftover rows.
        tail_of: if it groups leftover rows, the runs that left them over.
    """

    origin: int
    parts: Mapping[str, Part] | None = None
    cursor: Json = None
    marks: Marks = field(default_factory=dict)
    leftover: Json = None
    tail_of: tuple[OpenRun, ...] | None = None

    @property
    def begun(self) -> bool:
        """Whether it has given an element, or has leftover rows to do so."""
        return self.cursor is not None or self.tail_of is not None

    def part(self, stream: str, shards: int) -> Part:
        """Its part of a stream; `shards` is the number of shards of the first division."""
        if self.parts is None:
            return Part(later=(shards, self.origin))
        return self.parts.get(stream, Part())

    def stopped(self, streams: Mapping[str, object], shards: int) -> OpenRun:
        """This run, ending with what it has opened. It keeps an input for each stream: its cursor speaks of all."""
        if self.tail_of is not None:
            return self
        parts: dict[str, Part] = {}
        for stream in streams:
            if (mark := self.marks.get(stream)) is not None:
                until = cast("tuple[int, int, int]", tuple(cast("Mark", mark)[:3]))
                parts[stream] = replace(self.part(stream, shards), until=until)
        return replace(self, parts=parts)

    @property
    def plain(self) -> list[Json]:
        """The run as JSON."""
        parts: Json = None if self.parts is None else {name: _plain_part(part) for name, part in self.parts.items()}
        leftovers: Json = None if self.tail_of is None else [run.plain for run in self.tail_of]
        return _trimmed([self.origin, parts, self.cursor, self.marks or None, self.leftover, leftovers])

    @staticmethod
    def of(plain: Json) -> OpenRun:
        """The run that `plain` was made of."""
        values = cast("list[Json]", plain)
        origin, parts, cursor, marks, leftover, leftovers = _padded(values, 6)
        return OpenRun(
            cast("int", origin),
            None if parts is None else {name: _part_of(part) for name, part in cast("dict[str, Json]", parts).items()},
            cursor,
            cast("Marks", marks or {}),
            leftover,
            None if leftovers is None else tuple(OpenRun.of(run) for run in cast("list[Json]", leftovers)),
        )


def runs_left(runs: tuple[OpenRun, ...], cursor: Json, marks: Marks) -> list[OpenRun]:
    """The runs of a shard as they are left at `cursor`, a cursor of `OpenRunsInTurn`."""
    if cursor is None:
        return list(runs)
    (token, skip, _), left = cast("list[Json]", cursor)[:3], list[OpenRun]()
    number, plain, leftovers = cast("tuple[int, Json, list[list[Json]]]", token)
    left += [replace(runs[cast("int", place)], leftover=leftover) for place, leftover in leftovers]
    at = Cursor.of(plain).advance(cast("int", skip))
    return [*left, replace(runs[number], cursor=at.plain, marks=marks), *runs[number + 1 :]]


def runs_ended(runs: tuple[OpenRun, ...], leftover: Json) -> list[OpenRun]:
    """The runs of a shard that has ended that left rows over."""
    if leftover is None:
        return []
    leftovers = cast("list[list[Json]]", cast("list[Json]", leftover)[0])
    return [replace(runs[cast("int", place)], leftover=plain) for place, plain in leftovers]


def _trimmed(values: list[Json]) -> list[Json]:
    """Without the values at the end that are None."""
    while values and values[-1] is None:
        values.pop()
    return values


def _padded(values: list[Json], length: int) -> tuple[Json, ...]:
    return (*values, *[None] * (length - len(values)))


def _plain_part(part: Part) -> list[Json]:
    listed: list[Json] = [
        [number, [_trimmed([*s[:2], None if s[2:] == (1, None) else s.step, s.cursor]) for s in spans]]
        for number, spans in part.listed
    ]
    return _trimmed([listed, part.later, part.until])


def _part_of(plain: Json) -> Part:
    values = cast("list[Json]", plain)
    listed, later, until = _padded(values, 3)
    return Part(
        tuple(
            (number, tuple(_span_of(s) for s in spans))
            for number, spans in cast("list[tuple[int, list[list[Json]]]]", listed)
        ),
        None if later is None else cast("tuple[int, int]", tuple(cast("list[int]", later))),
        None if until is None else cast("tuple[int, int, int]", tuple(cast("list[int]", until))),
    )


def _span_of(plain: list[Json]) -> Span:
    start, stop, step, cursor = _padded(plain, 4)
    return Span(cast("int", start), cast("int | None", stop), cast("int", step or 1), cursor)
