"""`Cut`: what the shards of a plan run if the number of ranks has changed in the middle of a pass over the data.

A run of a shard that has begun ends with what it has opened. What nobody has opened is divided anew. So a shard has a
list of **items**, which it runs one after the other; each is the graph of one shard over some parts of the streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from ..core.cursor import Cursor, Json
from ..core.meter import Mark, Marks
from .parts import Part, Segment


@dataclass(frozen=True)
class Item:
    """A part of a pass that is run as one shard.

    Attributes:
        origin: the key of its draws; no two items of a pass have the same.
        parts: what it reads, by stream; None for all that shard `origin` of the first division reads.
        cursor: where it goes on; None if it has not begun.
        marks: what it has opened before that.
        leftover: if it has ended, the cursor of its leftover rows.
        leftovers: if it makes groups of leftover rows, the items that left them over.
    """

    origin: int
    parts: Mapping[str, Part] | None = None
    cursor: Json = None
    marks: Marks = field(default_factory=dict)
    leftover: Json = None
    leftovers: tuple[Item, ...] | None = None

    @property
    def begun(self) -> bool:
        """Whether it has given an element, or has leftover rows to do so."""
        return self.cursor is not None or self.leftovers is not None

    def part(self, stream: str, shards: int) -> Part:
        """What it reads of a stream; `shards` is the number of shards of the first division."""
        if self.parts is None:
            return Part(later=(shards, self.origin))
        return self.parts.get(stream, Part())

    def cut(self, streams: Mapping[str, object], shards: int) -> Item:
        """This item, ending with what it has opened. It keeps an input for each stream: its cursor speaks of all."""
        if self.leftovers is not None:
            return self
        parts: dict[str, Part] = {}
        for stream in streams:
            if (mark := self.marks.get(stream)) is not None:
                until = cast("tuple[int, int, int]", tuple(cast("Mark", mark)[:3]))
                parts[stream] = replace(self.part(stream, shards), until=until)
        return replace(self, parts=parts)

    @property
    def plain(self) -> list[Json]:
        """The item as JSON."""
        parts: Json = None if self.parts is None else {name: _plain_part(part) for name, part in self.parts.items()}
        leftovers: Json = None if self.leftovers is None else [item.plain for item in self.leftovers]
        return _trimmed([self.origin, parts, self.cursor, self.marks or None, self.leftover, leftovers])

    @staticmethod
    def of(plain: Json) -> Item:
        """The item that `plain` was made of."""
        values = cast("list[Json]", plain)
        origin, parts, cursor, marks, leftover, leftovers = _padded(values, 6)
        return Item(
            cast("int", origin),
            None if parts is None else {name: _part_of(part) for name, part in cast("dict[str, Json]", parts).items()},
            cursor,
            cast("Marks", marks or {}),
            leftover,
            None if leftovers is None else tuple(Item.of(item) for item in cast("list[Json]", leftovers)),
        )


@dataclass(frozen=True)
class Cut:
    """What the shards run after the number of ranks has changed.

    Attributes:
        first: the number of shards of the first division of the pass, which says what a place of a stream is.
        base: origins of this division begin here: that of shard n is `base` + n.
        digest: of the states that it was made of; the states of a job have the same.
        items: those of each shard, in order.
    """

    first: int
    base: int
    digest: str
    items: Mapping[int, tuple[Item, ...]]

    @property
    def plain(self) -> dict[str, Json]:
        """The cut as JSON."""
        items: Json = {str(shard): [item.plain for item in items] for shard, items in self.items.items()}
        return {"first": self.first, "base": self.base, "digest": self.digest, "items": items}

    @staticmethod
    def of(plain: Json) -> Cut:
        """The cut that `plain` was made of."""
        values = cast("dict[str, Json]", plain)
        items = cast("dict[str, list[Json]]", values["items"])
        return Cut(
            cast("int", values["first"]),
            cast("int", values["base"]),
            cast("str", values["digest"]),
            {int(shard): tuple(Item.of(item) for item in part) for shard, part in items.items()},
        )

    def all_items(self) -> Iterator[Item]:
        """All items, and those whose leftover rows they make groups of."""
        for items in self.items.values():
            for item in items:
                yield from (item, *(item.leftovers or ()))

    def of_shards(self, shards: range) -> Cut:
        """The cut with the items of some shards only."""
        return replace(self, items={shard: items for shard, items in self.items.items() if shard in shards})


def items_left(items: tuple[Item, ...], cursor: Json, marks: Marks) -> list[Item]:
    """The items of a shard that stands at `cursor`, a cursor of `ItemsInTurn`, as they are left there."""
    if cursor is None:
        return list(items)
    (token, skip, _), left = cast("list[Json]", cursor)[:3], list[Item]()
    number, plain, leftovers = cast("tuple[int, Json, list[list[Json]]]", token)
    left += [replace(items[cast("int", place)], leftover=leftover) for place, leftover in leftovers]
    at = Cursor.of(plain).advance(cast("int", skip))
    return [*left, replace(items[number], cursor=at.plain, marks=marks), *items[number + 1 :]]


def items_ended(items: tuple[Item, ...], leftover: Json) -> list[Item]:
    """The items of a shard that has ended, as far as they left rows over."""
    if leftover is None:
        return []
    leftovers = cast("list[list[Json]]", cast("list[Json]", leftover)[0])
    return [replace(items[cast("int", place)], leftover=plain) for place, plain in leftovers]


def _trimmed(values: list[Json]) -> list[Json]:
    """Without the values at the end that are None."""
    while values and values[-1] is None:
        values.pop()
    return values


def _padded(values: list[Json], length: int) -> tuple[Json, ...]:
    return (*values, *[None] * (length - len(values)))


def _plain_part(part: Part) -> list[Json]:
    listed: list[Json] = [
        [number, [_trimmed([*s[:2], None if s[2:] == (1, None) else s.step, s.cursor]) for s in segments]]
        for number, segments in part.listed
    ]
    return _trimmed([listed, part.later, part.until])


def _part_of(plain: Json) -> Part:
    values = cast("list[Json]", plain)
    listed, later, until = _padded(values, 3)
    return Part(
        tuple(
            (number, tuple(_segment_of(s) for s in segments))
            for number, segments in cast("list[tuple[int, list[list[Json]]]]", listed)
        ),
        None if later is None else cast("tuple[int, int]", tuple(cast("list[int]", later))),
        None if until is None else cast("tuple[int, int, int]", tuple(cast("list[int]", until))),
    )


def _segment_of(plain: list[Json]) -> Segment:
    start, stop, step, cursor = _padded(plain, 4)
    return Segment(cast("int", start), cast("int | None", stop), cast("int", step or 1), cursor)
