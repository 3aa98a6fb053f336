"""`Rest`: what is left of a shard if the number of ranks changes in a pass; `dealt`: the rests of each rank.

A rest goes on exactly as its shard would have, from its cursor. If whole shards do not come out even, some are cut:
each of several ranks runs the shard, and gives a part of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import NamedTuple, cast

from ..core.context import RowShare
from ..core.cursor import START, Cursor, Json
from .divide import step_of

PARTS = 16
"""The parts of a shard, or of what a rank has of it: ranks are even to half of one at each border."""


class Leavings(NamedTuple):
    """The rows that a shard has left over, by the cursor of the first."""

    shard: int
    cursor: Json


@dataclass(frozen=True)
class Rest:
    """What is left of a shard of the first division of a pass.

    Attributes:
        shard: the shard, which is also the key of its draws.
        shares: the part of its elements, and the part of that, and so on; none if it is all of them.
        cursor: where it goes on; None if it has not begun.
        leftover: the cursor of the rows that it has left over, if that is all there is.
        tail_of: if it groups leftover rows, those. `shard` is then above all numbers of shards.
    """

    shard: int
    shares: tuple[RowShare, ...] = ()
    cursor: Json = None
    leftover: Json = None
    tail_of: tuple[Leavings, ...] | None = None

    @property
    def has_leftover(self) -> bool:
        """Whether what the shard leaves over belongs to this part of it."""
        return self.tail_of is None and not any(share.first for share in self.shares)

    @property
    def weight(self) -> Fraction:
        """The part of the elements of a shard."""
        weight = Fraction(1)
        for share in self.shares:
            weight *= Fraction(share.stop - share.first, share.slots)
        return weight

    def count(self, elements: int) -> int:
        """How many of the first `elements` of the shard it has."""
        for share in self.shares:
            elements = share.count(elements)
        return elements

    def part(self, share: RowShare) -> Rest:
        """A part of it."""
        cursor = self.cursor
        if cursor is not None:
            cursor = Cursor(cursor, 0, share.count(Cursor.of(cursor).position)).plain
        return replace(self, shares=(*self.shares, share), cursor=cursor)

    def left(self, cursor: Json) -> Rest:
        """What is left of it at a cursor of `RestOfShard`."""
        if cursor is None:
            return self
        token, skip, _ = cast("tuple[Json, int, int]", tuple(cast("list[Json]", cursor)))
        source = self.cursor if token is None else token
        at = START if source is None else Cursor.of(source)
        return replace(self, cursor=at.advance(skip).plain)

    @property
    def plain(self) -> list[Json]:
        """The rest as JSON."""
        tail: Json = None if self.tail_of is None else [list(one) for one in self.tail_of]
        values: list[Json] = [self.shard, [list(share[:3]) for share in self.shares], self.cursor, self.leftover, tail]
        while values[-1] is None:
            values.pop()
        return values

    @staticmethod
    def of(plain: Json) -> Rest:
        """The rest that `plain` was made of."""
        values = cast("list[Json]", plain)
        shard, shares, cursor, leftover, tail = [*values, None, None, None][:5]
        return Rest(
            cast("int", shard),
            tuple(share_of_rows(*share) for share in cast("list[tuple[int, int, int]]", shares)),
            cursor,
            leftover,
            None if tail is None else tuple(Leavings(*one) for one in cast("list[tuple[int, Json]]", tail)),
        )


@dataclass(frozen=True)
class Redivision:
    """The rests that the ranks run after their number has changed.

    Attributes:
        first: the number of shards of the first division of the pass.
        base: the keys of groups of leftover rows begin here.
        digest: of the states that it was made of; the states of a job have the same.
        rests: by number, which is that of their rank modulo the number of ranks.
    """

    first: int
    base: int
    digest: str
    rests: Mapping[int, Rest]

    @property
    def plain(self) -> dict[str, Json]:
        """The redivision as JSON."""
        rests: Json = {str(number): rest.plain for number, rest in self.rests.items()}
        return {"first": self.first, "base": self.base, "digest": self.digest, "items": rests}

    @staticmethod
    def of(plain: Json) -> Redivision:
        """The redivision that `plain` was made of."""
        values = cast("dict[str, Json]", plain)
        rests = cast("dict[str, Json]", values["items"])
        first, base, digest = cast("int", values["first"]), cast("int", values["base"]), cast("str", values["digest"])
        return Redivision(first, base, digest, {int(number): Rest.of(rest) for number, rest in rests.items()})

    def of_rank(self, rank: int, world_size: int) -> Redivision:
        """The redivision with the rests of one rank only."""
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


def dealt(rests: Sequence[Rest], ranks: int) -> list[list[Rest]]:
    """The rests of each rank, nearly even; only those at the border of two ranks are cut."""
    lists: list[list[Rest]] = [[] for _ in range(ranks)]
    running = sorted((r for r in rests if r.leftover is None and r.tail_of is None), key=lambda r: (r.shard, r.shares))
    total = sum((rest.weight for rest in running), Fraction(0))
    begin = Fraction(0)  # in shares of a rank
    for rest in running:
        end = begin + rest.weight * ranks / total
        slots = PARTS * ceil(end - begin)
        of_ranks = range(int(begin), ceil(end))
        cuts = (round((rank - begin) / (end - begin) * slots) for rank in (*of_ranks, of_ranks.stop))
        for rank, (first, stop) in zip(of_ranks, pairwise(min(max(0, cut), slots) for cut in cuts), strict=True):
            if first < stop:
                lists[rank].append(rest if stop - first == slots else rest.part(share_of_rows(first, stop, slots)))
        begin = end
    others = [rest for rest in rests if rest.leftover is not None or rest.tail_of is not None]
    for number, rest in enumerate(sorted(others, key=lambda rest: rest.shard)):
        lists[number % ranks].append(rest)
    return lists


def share_of_rows(first: int, stop: int, slots: int) -> RowShare:
    """Some of `slots` equal parts of rows; any few rows are spread over all of them."""
    return RowShare(first, stop, slots, step_of(slots))
