"""`validated`: a state, checked entry by entry before anything is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast
from zlib import crc32

from ..core.cursor import MAX_COUNT, Json
from ..engine.skip_log import NO_SKIPS, SkipCounts
from ..errors import StateError
from ..plan.items import Cut
from ..plan.plan import ShardState

VERSION = 2

ALL_RANKS = -1
"""The `rank` of a state that serves all ranks."""
NO_GOAL = -1
"""The `goal` of a state whose epoch ends where the plan says."""

MAX_STRAGGLING = 2**24
"""How many elements behind the others a rank of an indexed pipe may be."""

_LEAST = {
    "feedpipe": VERSION,
    "seed": 0,
    "epoch": 0,
    "step": 0,
    "data_epoch": 0,
    "rank": ALL_RANKS,
    "world_size": 1,
    "shards": 0,
    "pipe": None,
    "code": None,
    "position": None,
    "checksum": 0,
    "goal": NO_GOAL,
}
"""Each entry, with the least value of a number; None stands for a text."""

_SHARD = re.compile(r"0|[1-9][0-9]{0,17}")


class IndexedPosition(NamedTuple):
    """The place of a job in an indexed pipe.

    Attributes:
        consumed: all elements before this one are taken.
        beyond: the elements behind it that are taken too, because ranks had taken different numbers of elements.
    """

    consumed: int
    beyond: tuple[range, ...] = ()

    @property
    def taken(self) -> int:
        """How many elements are taken."""
        return self.consumed + sum(map(len, self.beyond))


class StreamedPosition(NamedTuple):
    """The place of a rank in the data of a streamed pipe.

    Attributes:
        cursors: the plain cursors of the shards that have begun.
        ended: the shards that have ended, each with the plain cursor of its leftover rows.
        cut: what the shards run, if the number of ranks has changed in this pass.
        padding: how many elements the rank has repeated because other ranks have more.
        later: what the shards run in the next passes, if the number of ranks has changed when some were in these.
    """

    cursors: dict[int, Json]
    ended: dict[int, Json]
    cut: Cut | None = None
    padding: int = 0
    later: tuple[Cut, ...] = ()

    def given(self, shard: int) -> int:
        """How many elements a shard has given that has not ended."""
        return ShardState(self.cursors.get(shard)).at.position


class RankEntry(NamedTuple):
    """What a gathered state has of one rank."""

    step: int
    data_epoch: int
    goal: int | None
    position: StreamedPosition | None
    skipped: SkipCounts


class JobPosition(NamedTuple):
    """The places of all ranks in a streamed pipe."""

    ranks: tuple[RankEntry, ...]


SavedPosition: TypeAlias = IndexedPosition | StreamedPosition | JobPosition | None


@dataclass(frozen=True)
class SavedState:
    """A valid state.

    Attributes:
        pipe, code: the fingerprint of the pipe and of its functions.
        position: the place of all ranks in an indexed pipe, or of one rank in a streamed one; an entry for each rank if
            the state was gathered. None before the first element of a pass over the data.
        goal: the step at which the epoch ends; None if the plan says it.
        skipped: how many rows of the epoch were skipped.
    """

    seed: int
    epoch: int
    step: int
    data_epoch: int
    rank: int
    world_size: int
    shards: int
    pipe: str
    code: str
    position: SavedPosition
    goal: int | None
    skipped: SkipCounts = NO_SKIPS

    @property
    def indexed(self) -> bool:
        return not self.shards


def signature_checksum(entries: Mapping[str, Json]) -> int:
    """The checksum of the entries that all states of a loader have in common."""
    names = ("feedpipe", "seed", "rank", "world_size", "shards", "pipe", "code")
    return crc32(json.dumps([entries[name] for name in names]).encode())


def checksum(signature: int, entries: Mapping[str, Json]) -> int:
    """The checksum of a state, from that of its signature."""
    epoch, step, data_epoch = entries["epoch"], entries["step"], entries["data_epoch"]
    return crc32(f"{epoch} {step} {data_epoch} {entries['goal']} {entries['position']}".encode(), signature)


def validated(state: object) -> SavedState:
    """The state, checked: its entries, their types and ranges, its checksum, and the form of its position.

    Raises:
        StateError: it is no state, of another version, or damaged; the message names the place.
    """
    if not isinstance(state, Mapping) or "feedpipe" not in state:
        raise StateError(f"a state must be a dict that `state_dict()` returned but got: {_shown(state)}")
    _check_version(state)
    if missing := _LEAST.keys() - state.keys():
        raise StateError(f"the state is damaged: it has no `{min(missing)}`")
    if unknown := state.keys() - _LEAST.keys():
        raise StateError(f"the state is damaged: {_shown(min(unknown, key=str))} is no entry of a state")
    for name, least in _LEAST.items():
        _check_entry(name, state[name], least)
    entries = cast("Mapping[str, Json]", state)
    numbers = {name: cast("int", entries[name]) for name, least in _LEAST.items() if least is not None}
    texts = {name: cast("str", entries[name]) for name, least in _LEAST.items() if least is None}
    if numbers["checksum"] != checksum(signature_checksum(entries), entries):
        raise StateError(
            "the state is damaged: its `checksum` does not fit its other entries; it was changed, or mixed from the "
            "states of several ranks; load what `state_dict()` returned, on each rank its own, or save and load "
            "`gather_state(loader)`, which is the same on all ranks"
        )
    rank, world_size, shards = numbers["rank"], numbers["world_size"], numbers["shards"]
    if rank >= world_size:
        raise damaged("rank", f"must be below `world_size`, which is {world_size}, but is: {rank}")
    needs_shards = rank != ALL_RANKS or numbers["goal"] != NO_GOAL
    if (needs_shards and shards == 0) or (rank == ALL_RANKS and shards and world_size == 1) or shards % world_size:
        raise damaged("shards", f"does not fit `rank` {rank} of `world_size` {world_size}: {shards}")
    goal = _goal("goal", numbers["goal"], numbers["step"])
    position = _parsed(texts["position"], "position")
    skipped = _without_skipped("position", position)
    return SavedState(
        seed=numbers["seed"],
        epoch=numbers["epoch"],
        step=numbers["step"],
        data_epoch=numbers["data_epoch"],
        rank=rank,
        world_size=world_size,
        shards=shards,
        pipe=texts["pipe"],
        code=texts["code"],
        position=_position(position, texts["position"], rank, world_size, shards),
        goal=goal,
        skipped=skipped,
    )


def _check_version(state: Mapping[object, object]) -> None:
    version = state["feedpipe"]
    if type(version) is int and version == VERSION:
        return
    epoch = state.get("epoch")
    begin = f"`set_epoch({epoch})`" if type(epoch) is int else "`set_epoch`"
    raise StateError(
        f"this state is of version {_shown(version)}, and this feedpipe reads version {VERSION}; load it with the "
        f"release of feedpipe that saved it, or begin its epoch anew with {begin}"
    )


def _check_entry(name: str, value: object, least: int | None) -> None:
    if least is None:
        if type(value) is not str:
            raise damaged(name, f"must be a text but is: {_shown(value)}")
    elif type(value) is not int:
        raise damaged(name, f"must be a whole number but is: {_shown(value)}")
    elif value < least:
        raise damaged(name, f"must be >= {least} but is: {_shown(value)}")
    elif value > MAX_COUNT and name != "seed":
        raise damaged(name, f"must be < 2**63 but is: {_shown(value)}")


def _goal(place: str, goal: int, step: int) -> int | None:
    if goal == NO_GOAL:
        return None
    if goal < step:
        raise damaged(place, f"must be {NO_GOAL}, or at least the step, which is {step}, but is: {goal}")
    return goal


def _position(position: Json, text: str, rank: int, world_size: int, shards: int) -> SavedPosition:
    if position is None:
        return None
    if not shards:
        return _indexed(position, text)
    if rank != ALL_RANKS:
        return _streamed(position, text)
    if not isinstance(position, dict) or set(position) != {"ranks"}:
        raise damaged("position", f"is no place of all ranks in a streamed pipe: {_shown(text)}")
    ranks = position["ranks"]
    if not isinstance(ranks, list) or len(ranks) != world_size:
        raise damaged("position.ranks", f"must have an entry for each of {world_size} ranks but is: {_shown(ranks)}")
    return JobPosition(tuple(_rank_entry(f"position.ranks.{number}", entry) for number, entry in enumerate(ranks)))


def _without_skipped(place: str, position: Json) -> SkipCounts:
    """Takes the rows that were skipped out of a position."""
    counts = position.pop("skipped", None) if isinstance(position, dict) else None
    if counts is None:
        return NO_SKIPS
    place = f"{place}.skipped"
    if not isinstance(counts, list) or len(counts) != 2 or not isinstance(counts[0], dict):
        raise damaged(place, f"must have the rows skipped by each operator but is: {_shown(counts)}")
    if not all(map(_is_count, (*counts[0].values(), counts[1]))):
        raise damaged(place, f"must have whole numbers but is: {_shown(json.dumps(counts))}")
    return SkipCounts(cast("dict[str, int]", counts[0]), cast("int", counts[1]))


def _rank_entry(place: str, entry: Json) -> RankEntry:
    if not isinstance(entry, list) or len(entry) != 4 or not all(map(_is_count, entry[:2])):
        raise damaged(place, f"must be step, data epoch, goal and position but is: {_shown(entry)}")
    step, data_epoch, goal, position = cast("tuple[int, int, Json, Json]", entry)
    if type(goal) is not int:
        raise damaged(place, f"must have a whole number as goal but has: {_shown(goal)}")
    skipped = _without_skipped(place, position)
    streamed = None if position is None else _streamed(position, json.dumps(position))
    return RankEntry(step, data_epoch, _goal(place, goal, step), streamed, skipped)


def _indexed(position: Json, text: str) -> IndexedPosition:
    if not isinstance(position, dict) or set(position) not in ({"consumed"}, {"consumed", "beyond"}):
        raise damaged("position", f"is no place in an indexed pipe: {_shown(text)}")
    consumed, beyond = position["consumed"], position.get("beyond", [])
    if not _is_count(consumed):
        raise damaged("position.consumed", f"must be a whole number >= 0 but is: {_shown(consumed)}")
    ranges = [_range(part, cast("int", consumed)) for part in (beyond if isinstance(beyond, list) else [beyond])]
    return IndexedPosition(cast("int", consumed), tuple(ranges))


def _range(part: Json, consumed: int) -> range:
    if not isinstance(part, list) or len(part) != 3 or not all(map(_is_count, part)):
        raise damaged("position.beyond", f"must have ranges of elements but has: {_shown(part)}")
    start, stop, step = cast("tuple[int, int, int]", part)
    if not consumed <= start < stop or not step or stop - start > MAX_STRAGGLING:
        raise damaged("position.beyond", f"is no range of elements behind {consumed}: {_shown(part)}")
    return range(start, stop, step)


def _streamed(position: Json, text: str) -> StreamedPosition:
    if not isinstance(position, dict) or set(position) - {"cut", "later", "padding"} != {"cursors", "ended"}:
        raise damaged("position", f"is no place in a streamed pipe: {_shown(text)}")
    cursors, ended = (dict(_by_shard(name, position[name])) for name in ("cursors", "ended"))
    for shard, cursor in cursors.items():
        _check_cursor(f"position.cursors.{shard}", cursor, marks=True)
    for shard, leftover in ended.items():
        if leftover is not None:
            _check_cursor(f"position.ended.{shard}", leftover)
    padding = position.get("padding", 0)
    if not _is_count(padding):
        raise damaged("position.padding", f"must be a whole number >= 0 but is: {_shown(padding)}")
    cut = _cut(position["cut"]) if "cut" in position else None
    later = position.get("later", [])
    if not isinstance(later, list) or (later and cut is None):
        raise damaged("position.later", f"must have what is left of the next passes but is: {_shown(later)}")
    if cut is None and not cursors and not ended:
        raise damaged("position", f"names no shard: {_shown(text)}")
    return StreamedPosition(cursors, ended, cut, cast("int", padding), tuple(map(_cut, later)))


def _cut(plain: Json) -> Cut:
    try:
        return Cut.of(plain)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise damaged("position.cut", f"says wrongly what is left of the epoch: {_shown(json.dumps(plain))}") from None


def _parsed(text: str, place: str) -> Json:
    """The value of a JSON text in a state.

    Raises:
        StateError: it is no JSON.
    """
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        raise damaged(place, f"is no JSON: {_shown(text)}") from None


def _by_shard(name: str, values: Json) -> Iterator[tuple[int, Json]]:
    if not isinstance(values, dict):
        raise damaged(f"position.{name}", f"must be an object but is: {_shown(values)}")
    for shard, value in values.items():
        if _SHARD.fullmatch(shard) is None:
            raise damaged(f"position.{name}", f"must have numbers of shards but has: {_shown(shard)}")
        yield int(shard), value


def _check_cursor(place: str, cursor: Json, *, marks: bool = False) -> None:
    if not isinstance(cursor, list) or not 3 <= len(cursor) <= 3 + marks or not all(map(_is_count, cursor[1:3])):
        raise damaged(place, f"is no cursor: {_shown(cursor)}")
    if len(cursor) > 3:
        _check_marks(place, cursor[3])


def _check_marks(place: str, marks: Json) -> None:
    """Checks how far a run has opened each stream: round, segment, places, and a cursor where there is one."""
    for mark in marks.values() if isinstance(marks, dict) else [marks]:
        if not isinstance(mark, list) or not 3 <= len(mark) <= 4 or not all(map(_is_count, mark[:3])):
            raise damaged(place, f"says wrongly how far its shard was opened: {_shown(mark)}")
        if len(mark) > 3:
            _check_cursor(place, mark[3])


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def damaged(place: str, what: str) -> StateError:
    return StateError(f"the state is damaged: `{place}` {what}")


def _shown(value: object) -> str:
    """A value of a damaged state for a message: never long, and without a call of its own code."""
    if type(value) is int and value.bit_length() > 256:
        return "<a long int>"
    if type(value) not in (str, int, float, bool, type(None)):
        return f"<{type(value).__name__}>"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
