"""`Rest`: what is left of a shard in the middle of a pass; `dealt`: the rests of each rank.

A rest goes on exactly as its shard would have, from where it was. If whole shards do not come out even, some are cut:
each of several ranks runs the shard, and gives a part of its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from ..core.context import RowShare
from ..core.cursor import Cursor, Json
from ..core.rows import Indices, index_array
from ..core.taken import Taken
from .divide import step_of

PARTS = 16
"""The parts of a shard, or of what a rank has of it: ranks are even to half of one at each border."""

Edge: TypeAlias = tuple[int, int]
"""An input of an operator: the number of the operator in its graph, inputs first, and that of the input."""
ROOT: Edge = (-1, 0)
"""The edge behind the last operator."""
NOTHING = RowShare(0, 0, 1)
"""The part of rows of which none is left."""


class Share(NamedTuple):
    """A part of rows, by runs of neighbours.

    Attributes:
        part: the runs that belong to it, by number.
        run: the rows of a run.
        first: the row with which the first run begins; all before it are taken.
    """

    part: RowShare
    run: int = 1
    first: int = 0

    def count(self, rows: int) -> int:
        """The number of its rows among those from `first` to `rows`."""
        runs, rest = divmod(max(0, rows - self.first), self.run)
        count = self.part.count(runs)
        return count * self.run + (rest if rest and self.part.count(runs + 1) > count else 0)

    def position(self, index: int) -> int:
        """The position among all rows of row `index` of it."""
        runs, rest = divmod(index, self.run)
        return self.first + self.part.position(runs) * self.run + rest

    def places(self, start: int, count: int) -> Indices:
        """Its places among `count` rows from row `start` on."""
        start -= self.first
        if self.run == 1:
            return self.part.places(start, count)
        runs = np.arange(start, start + count) // self.run
        begin = start // self.run
        own = index_array(self.part.places(begin, -(-(start + count) // self.run) - begin)) + begin
        return np.flatnonzero(np.isin(runs, own))

    def of_runs(self, length: int) -> Share:
        """The same part, if each row is a run of rows."""
        return Share(self.part, self.run * length, self.first * length)

    def after(self, rows: int) -> Share:
        """The same part of the rows that are left of more, of which some are taken."""
        return self._replace(first=self.first + rows)

    @property
    def plain(self) -> Json:
        """The share as JSON."""
        where = [self.run, self.first] if self.run > 1 or self.first else []
        return [*self.part[:3], *where]

    @staticmethod
    def of(plain: Json) -> Share:
        """The share that `plain` was made of."""
        first, stop, slots, *where = cast("list[int]", plain)
        return Share(share_of_rows(first, stop, slots), *where)


class Start(NamedTuple):
    """Where a rest begins in the rows of an edge.

    Attributes:
        origin: the key of the draws below, in place of the number of a shard; -1 if there are no shards.
        cursor: of the rows, the first one that is left; None if none is taken. Of an indexed pipe, a plain `Taken`.
        shares: the part of the rows that belongs to the rest, the part of that, and so on; none if it is all.
        given: the rows that the shard had given before the operators below began, for those that count the rows of a
            pass; None if nobody knows.
    """

    origin: int
    cursor: Json = None
    shares: tuple[Share, ...] = ()
    given: int | None = 0

    @property
    def taken(self) -> int:
        """The number of rows of the rest before it begins."""
        if isinstance(self.cursor, list) and len(self.cursor) == 2:  # of an indexed pipe
            return Taken.of_plain(self.cursor).total
        return self.count(Cursor.of(self.cursor).position)

    @property
    def weight(self) -> Fraction:
        """The part of the rows."""
        weight = Fraction(1)
        for part, _, _ in self.shares:
            weight *= Fraction(part.stop - part.first, part.slots)
        return weight

    def draws(self, shards: int) -> int | None:
        """The key of the draws below, if the first division has so many shards; see `Plan.draws_of`."""
        return None if self.origin < 0 or (shards, self.origin) == (1, 0) else self.origin

    def count(self, rows: int) -> int:
        """How many of the first `rows` rows belong to the rest."""
        for share in self.shares:
            rows = share.count(rows)
        return rows

    def places(self, first: int, count: int) -> Indices:
        """The places of the rest among `count` rows from row `first` on."""
        places: Indices = range(count)
        for share in self.shares:
            own = share.places(first, len(places))
            places = own if isinstance(places, range) and len(places) == count else index_array(places)[own]
            first = share.count(first)
        return places

    def owns(self, row: int) -> bool:
        """Whether a row belongs to the rest."""
        return self.count(row + 1) > self.count(row)

    def after(self, token: Json, skip: int) -> Cursor:
        """The cursor `skip` rows of the rest after `token`, which is a cursor of the rows; None is the beginning."""
        at = Cursor.of(self.cursor if token is None else token)
        if not self.shares or not skip:
            return at.advance(skip)
        # After the last of these rows, not before the next one, which may lie beyond the end.
        last = self.count(at.position) + skip - 1
        for share in reversed(self.shares):
            last = share.position(last)
        return at.advance(last + 1 - at.position)

    def begun(self, cursor: Json) -> Start:
        """Where the rest begins at a cursor of `RestOfShard`."""
        token, skip, _ = Cursor.of(cursor)
        return self._replace(cursor=self.after(token, skip).plain)

    @property
    def plain(self) -> Json:
        """The start as JSON."""
        more: list[Json] = [[share.plain for share in self.shares], self.given]
        return [self.origin, self.cursor, *more[: 2 if self.given != 0 else 1 if self.shares else 0]]

    @staticmethod
    def of(plain: Sequence[Json]) -> Start:
        """The start that `plain` was made of."""
        origin, cursor, *more = plain
        shares, given = cast("tuple[list[Json], int | None]", (*more, *([], 0)[len(more) :]))
        return Start(cast("int", origin), cursor, tuple(map(Share.of, shares)), given)


@dataclass(frozen=True)
class Rest:
    """What is left of a shard of the first division of a pass.

    Attributes:
        shard: the shard.
        starts: where it begins in the rows of some edges, the last edge first. If that is not the root, the rest has
            only rows left that wait for others to complete a group.
        tail_of: if it completes such groups, the rests whose rows wait. `shard` is then -1.
    """

    shard: int
    starts: Mapping[Edge, Start]
    tail_of: tuple[Rest, ...] = ()

    @staticmethod
    def of_shard(shard: int, cursor: Json) -> Rest:
        """The rest of a shard that nobody has divided."""
        return Rest(shard, {ROOT: Start(shard, cursor)})

    @property
    def top(self) -> Start:
        """The start at the last edge."""
        return next(iter(self.starts.values()))

    @property
    def waits(self) -> bool:
        """Whether only rows are left that wait for others to complete a group."""
        return ROOT not in self.starts

    @property
    def is_edited(self) -> bool:
        """Whether it begins on edges within the graph, because the pipe has changed."""
        return len(self.starts) > 1 or any(rest.is_edited for rest in self.tail_of)

    @property
    def runs(self) -> bool:
        """Whether a shard is left to run."""
        return not self.waits and not self.tail_of

    def left(self, cursor: Json) -> Rest:
        """What is left of it at a cursor of `RestOfShard`."""
        return self if cursor is None else replace(self, starts={**self.starts, ROOT: self.top.begun(cursor)})

    def waiting(self, edge: Edge, cursor: Json) -> Rest:
        """The rows that it leaves over at an edge, from a cursor of these on."""
        below = {other: start for other, start in self.starts.items() if other not in (ROOT, edge)}
        start = self.starts.get(edge)
        if start is None:
            return Rest(self.shard, {edge: Start(self.top.origin, cursor, given=self.top.given), **below})
        return Rest(self.shard, {edge: start.begun(cursor), **below})

    @property
    def weight(self) -> Fraction:
        """The part of the rows of its shard."""
        below = (start.weight for edge, start in self.starts.items() if edge != ROOT)
        return self.top.weight * (max(below, default=0) or 1)

    def part(self, share: RowShare, edges: Collection[Edge] = (ROOT,)) -> Rest:
        """A part of it, which is a part of the rows of some edges."""
        parts = {
            e: start._replace(shares=(*start.shares, Share(share))) for e, start in self.starts.items() if e in edges
        }
        return replace(self, starts={**self.starts, **parts})

    @property
    def plain(self) -> list[Json]:
        """The rest as JSON."""
        starts: Json = [[list(edge), start.plain] for edge, start in self.starts.items()]
        tail: list[Json] = [[rest.plain for rest in self.tail_of]] if self.tail_of else []
        return [self.shard, starts, *tail]

    @staticmethod
    def of(plain: Json) -> Rest:
        """The rest that `plain` was made of."""
        shard, starts, *tail = cast("list[Json]", plain)
        by_edge = {
            (edge[0], edge[1]): Start.of(start)
            for edge, start in cast("list[tuple[tuple[int, int], list[Json]]]", starts)
        }
        waiting = cast("list[Json]", tail[0]) if tail else []
        return Rest(cast("int", shard), by_edge, tuple(map(Rest.of, waiting)))


@dataclass(frozen=True)
class GraphOfPass:
    """The differences between the graph of a pass in which the pipe has changed, and the pipe.

    Attributes:
        names: of operators that keep those of the pipe before it changed, by number.
        parts: where the parts of sources that have grown begin; see `growth.grown`.
        fingerprint: of the graph, if it has such parts: operators, and functions.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    parts: Mapping[int, Sequence[int]] = field(default_factory=dict)
    fingerprint: tuple[str, str] | None = None

    @property
    def plain(self) -> dict[str, Json]:
        """The differences as JSON; empty if there are none."""
        plain: dict[str, Json] = {}
        if self.names:
            plain["names"] = {str(number): name for number, name in self.names.items()}
        if self.fingerprint is not None:
            plain["parts"] = {str(number): [*starts] for number, starts in self.parts.items()}
            plain["graph"] = [*self.fingerprint]
        return plain

    @staticmethod
    def of(plain: Mapping[str, Json]) -> GraphOfPass:
        """The graph that `plain` was made of."""
        names = {int(number): name for number, name in cast("dict[str, str]", plain.get("names", {})).items()}
        parts = cast("dict[str, list[int]]", plain.get("parts", {}))
        fingerprint = cast("list[str] | None", plain.get("graph"))
        starts = {int(number): tuple(rows) for number, rows in parts.items()}
        return GraphOfPass(names, starts, None if fingerprint is None else (fingerprint[0], fingerprint[1]))


AS_IT_IS = GraphOfPass()
"""The graph of a pass that is the pipe's."""


@dataclass(frozen=True)
class Redivision:
    """The rests that the ranks run after their number or the pipe has changed.

    Attributes:
        first: the number of shards of the first division of the pass; 0 if the pipe is indexed.
        ranks: the number of ranks of that division.
        base: the keys of the draws of rests that have no shard begin here.
        digest: of the states that it was made of; the states of a job have the same.
        rests: by number, which is that of their rank modulo the number of ranks.
        graph: what the rests are rests of.
    """

    first: int
    ranks: int
    base: int
    digest: str
    rests: Mapping[int, Rest] = field(repr=False)
    graph: GraphOfPass = field(default=AS_IT_IS, repr=False)

    @property
    def plain(self) -> dict[str, Json]:
        """The redivision as JSON."""
        rests: Json = {str(number): rest.plain for number, rest in self.rests.items()}
        numbers: dict[str, Json] = {"first": self.first, "ranks": self.ranks, "base": self.base}
        return {**numbers, "digest": self.digest, "items": rests, **self.graph.plain}

    @staticmethod
    def of(plain: Json) -> Redivision:
        """The redivision that `plain` was made of."""
        values = cast("dict[str, Json]", plain)
        rests = cast("dict[str, Json]", values["items"])
        first, ranks, base = (cast("int", values[name]) for name in ("first", "ranks", "base"))
        items = {int(number): Rest.of(rest) for number, rest in rests.items()}
        return Redivision(first, ranks, base, cast("str", values["digest"]), items, GraphOfPass.of(values))

    def of_rank(self, rank: int, world_size: int) -> Redivision:
        """The redivision with the rests of one rank only; an indexed pipe has one of all ranks."""
        if not self.first:
            return self
        own = {number: rest for number, rest in self.rests.items() if number % world_size == rank}
        return replace(self, rests=own)


def numbered(of_ranks: Sequence[Sequence[Rest]], shards: int) -> dict[int, Rest]:
    """The rests by number; the numbers of the tails of the ranks, from `shards` on, are left out."""
    ranks = len(of_ranks)
    places = [[place + (place >= shards // ranks) for place in range(len(rests))] for rests in of_ranks]
    return {
        rank + ranks * place: rest
        for rank, rests in enumerate(of_ranks)
        for place, rest in zip(places[rank], rests, strict=True)
    }


def dealt(rests: Sequence[Rest], ranks: int, cut: Callable[[Rest], Callable[[RowShare], Rest]]) -> list[list[Rest]]:
    """The rests of each rank, nearly even; only those at the border of two ranks are cut.

    Args:
        rests: of all shards.
        ranks: their number.
        cut: gives the function that makes a part of a rest.
    """
    lists: list[list[Rest]] = [[] for _ in range(ranks)]
    by_shard = sorted((rest for rest in rests if rest.runs), key=_place)
    # Shards with low numbers have their turns first, so neighbours have given as many elements.
    running = [rest for rank in range(ranks) for rest in by_shard[rank::ranks]]
    total = sum((rest.weight for rest in running), Fraction(0))
    begin = Fraction(0)  # in shares of a rank
    for rest in running:
        end = begin + rest.weight * ranks / total
        slots = PARTS * ceil(end - begin)
        of_ranks = range(int(begin), ceil(end))
        part = cut(rest) if len(of_ranks) > 1 else rest.part
        cuts = (round((rank - begin) / (end - begin) * slots) for rank in (*of_ranks, of_ranks.stop))
        for rank, (first, stop) in zip(of_ranks, pairwise(min(max(0, cut), slots) for cut in cuts), strict=True):
            if first < stop:
                lists[rank].append(rest if stop - first == slots else part(share_of_rows(first, stop, slots)))
        begin = end
    for number, rest in enumerate(sorted((rest for rest in rests if not rest.runs), key=_place)):
        lists[number % ranks].append(rest)
    return lists


def _place(rest: Rest) -> tuple[int, int, tuple[Share, ...]]:
    return rest.shard, rest.top.origin, rest.top.shares


def share_of_rows(first: int, stop: int, slots: int) -> RowShare:
    """Some of `slots` equal parts of rows; any few rows are spread over all of them."""
    return RowShare(first, stop, slots, step_of(slots))
