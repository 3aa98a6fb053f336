"""`Progress`: the place of a loader, and the state that saves it: made, checked, compared and restored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import is_not
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast
from zlib import crc32

from ..core.cursor import MAX_COUNT, Json
from ..core.operator import MAX_DEPTH
from ..engine.run import position_count
from ..engine.skips import NONE_LOST, LostCounts, share_of_lost
from ..errors import FeedpipeError, StateError, StateWarning, warn
from ..plan.fingerprint import Fingerprint, code_differences, differences
from ..plan.plan import Plan, Position, ShardState
from ..plan.rests import Redivision
from ..plan.shards import take_left

VERSION = 2
ALL_RANKS = -1
"""The `rank` of a state that serves all ranks."""
NO_GOAL = -1
"""The `goal` of a state if the plan alone determines the end of the epoch."""
MAX_STRAGGLING = 2**24
"""The most elements that a rank of an indexed pipe may be behind the others."""
NO_FINGERPRINT = "is no fingerprint of a pipe"
MAX_NESTING = 8 * MAX_DEPTH
"""The lists and objects in each other in a position: a token has at most a few for each operator."""
MAX_SHARDS_OF_RANK = 1024
"""A state with more shards for each rank is refused unless the loader has as many: to plan them takes long."""
State = dict[str, Json]
"""The state of a loader: thirteen entries, always the same, each a str or an int."""
T = TypeVar("T")


@dataclass
class Progress:
    """The place of a loader: after the last element that its consumer took.

    Attributes:
        epoch: the epoch of the loader.
        step: the number of elements of the epoch that this rank has taken.
        data_pass: the number of the pass over the data; it is `epoch` unless `steps` sets the length of an epoch.
        start: of an indexed pipe, the number of elements of the pass that all ranks had taken when this rank began.
        beyond: of an indexed pipe, those of them that were taken although one before them was not.
        taken: the number of elements of the pass that this rank has taken since.
        cursors: the plain cursors of the shards of a streamed pipe that have begun.
        ended: the shards that have ended, each with the plain cursor of its leftover rows.
        redivision: of a streamed pipe, the rests of its shards if the number of ranks has changed in this pass.
        later: the same of the next passes, if some ranks had come to these.
        skipped: the numbers of rows of the epoch that were skipped on this rank.
        goal: the step at which the epoch ends, if the plan does not say it because the number of ranks has changed.
        own_steps: of a streamed pipe, the step at which this rank had no more elements and began to repeat some.
        lent: a snapshot has `cursors` too, so the next change is that of a copy; `ended` is replaced at each change.
    """

    epoch: int = 0
    step: int = 0
    data_pass: int = 0
    start: int = 0
    taken: int = 0
    cursors: dict[int, Json] = field(default_factory=dict)
    ended: dict[int, Json] = field(default_factory=dict)
    beyond: tuple[range, ...] = ()
    goal: int | None = None
    redivision: Redivision | None = None
    later: tuple[Redivision, ...] = ()
    own_steps: int | None = None
    skipped: LostCounts = NONE_LOST
    lent: bool = field(default=False, compare=False, repr=False)

    @property
    def padding(self) -> int:
        """The number of elements of padding that this rank has taken in the epoch."""
        return 0 if self.own_steps is None else max(0, self.step - self.own_steps)

    def begin_padding(self) -> int:
        """Notes that all further steps are padding, and returns the number of those before."""
        if self.own_steps is None:
            self.own_steps = self.step
        return self.padding

    @property
    def begun(self) -> bool:
        """Whether any element of the pass over the data is taken."""
        return bool(self.taken or self.start or self.cursors or self.ended or self.redivision)

    def copy(self) -> Progress:
        return replace(self, cursors=dict(self.cursors), ended=dict(self.ended))

    def snapshot(self) -> dict[str, Any]:
        """The arguments of an equal progress; to make that would take ten times as long, and few are ever needed."""
        self.lent = True
        return self.__dict__.copy()

    def own_cursors(self) -> dict[int, Json]:
        """`cursors`, to be changed."""
        if self.lent:
            self.cursors, self.lent = self.cursors.copy(), False
        return self.cursors

    def next_data_pass(self) -> Progress:
        """The beginning of the next pass over the data, in the same epoch."""
        following = Progress(self.epoch, self.step, self.data_pass + 1, skipped=self.skipped)
        if self.later:
            following.redivision, following.later = self.later[0], self.later[1:]
        return following

    def next_epoch(self, *, by_steps: bool) -> Progress:
        """The beginning of the next epoch; with `by_steps` it goes on at the same place of the data."""
        if by_steps:
            return replace(self.copy(), epoch=self.epoch + 1, step=0, skipped=NONE_LOST)
        return Progress(self.epoch + 1, 0, self.epoch + 1)

    def taken_by_all(self, plan: Plan) -> int:
        """Of an indexed pipe, the number of elements of the pass that all ranks together have taken."""
        return self.start + self.taken * plan.world_size

    def position(self, plan: Plan) -> Position:
        """The place in the data for a service that runs `plan`."""
        if plan.indexed:
            taken, beyond = self.taken_by_all(plan), self.beyond
            if beyond:
                taken, beyond = take_left(self.start, beyond, taken - self.start)
            return Position(taken, beyond=beyond)
        shards = {shard: ShardState(cursor) for shard, cursor in self.cursors.items()}
        shards |= {shard: ShardState(None, True, leftover) for shard, leftover in self.ended.items()}
        return Position(0, shards, redivision=self.redivision)


def save(progress: Progress, plan: Plan, signature: Signature) -> State:
    """The state of `progress`. Loops save after each element, so it is written for speed."""
    if not progress.taken and not progress.begun:
        position = "null"
    elif plan.indexed and not progress.beyond:
        position = f'{{"consumed": {progress.taken_by_all(plan)}}}'
    elif plan.indexed:
        place = progress.position(plan)
        position = indexed_text(IndexedPosition(place.start - sum(map(len, place.beyond)), place.beyond))
    else:
        ended = signature.ended.text(progress.ended) if progress.ended else "{}"
        position = f'{{"cursors": {signature.cursors.text(progress.cursors)}, "ended": {ended}'
        if progress.redivision is not None:
            position += f', "cut": {signature.redivision_text(progress.redivision)}'
        if progress.later:
            position += f', "later": [{", ".join(map(signature.redivision_text, progress.later))}]'
        if progress.own_steps is not None and progress.padding:
            position += f', "padding": {progress.padding}'
        position += "}"
    # The state of an indexed pipe on several ranks is the same on all of them, so it has no counts of one.
    if progress.skipped.skipped and progress.begun and (plan.world_size == 1 or not plan.indexed):
        position = f'{position[:-1]}, "skipped": {json.dumps(progress.skipped.plain)}}}'
    state = signature.entries.copy()
    state["epoch"] = epoch = progress.epoch
    state["step"] = step = progress.step
    state["data_epoch"] = data_pass = progress.data_pass
    state["position"] = position
    goal = NO_GOAL
    if progress.goal is not None:
        state["goal"] = goal = progress.goal
    state["checksum"] = crc32(f"{epoch} {step} {data_pass} {goal} {position}".encode(), signature.checksum)
    return state


def indexed_text(position: SavedPosition) -> str:
    """The JSON text of a position in an indexed pipe."""
    if not isinstance(position, IndexedPosition):
        return "null"
    if not position.beyond:
        return f'{{"consumed": {position.consumed}}}'
    beyond = [[part.start, part.stop, part.step] for part in position.beyond]
    return json.dumps({"consumed": position.consumed, "beyond": beyond})


def signature_checksum(entries: Mapping[str, Json]) -> int:
    """The checksum of the entries that all states of a loader have in common."""
    names = ("feedpipe", "seed", "rank", "world_size", "shards", "pipe", "code")
    return crc32(json.dumps([entries[name] for name in names]).encode())


def checksum(signature: int, entries: Mapping[str, Json]) -> int:
    """The checksum of a state, from that of its signature."""
    epoch, step, data_pass = entries["epoch"], entries["step"], entries["data_epoch"]
    return crc32(f"{epoch} {step} {data_pass} {entries['goal']} {entries['position']}".encode(), signature)


class Signature:
    """The part that all states of a plan have in common. A loaded state is compared with it.

    Attributes:
        entries: the entries of a state, in their order; those that differ between states are placeholders.
        checksum: of the entries that all states share; the checksum of a state goes on from it.
        cursors, ended: the JSON text of the position of each shard.
    """

    def __init__(self, plan: Plan) -> None:
        fingerprint = Fingerprint(plan.root)
        self.entries: State = {
            "feedpipe": VERSION,
            "seed": plan.seed,
            "epoch": 0,
            "step": 0,
            "data_epoch": 0,
            "rank": ALL_RANKS if plan.indexed else plan.rank,
            "world_size": plan.world_size,
            "shards": plan.shards,
            "pipe": fingerprint.pipe,
            "code": fingerprint.code,
            "position": "null",
            "checksum": 0,
            "goal": NO_GOAL,
        }
        self.checksum = signature_checksum(self.entries)
        self.cursors = _ShardTexts()
        self.ended = _ShardTexts()
        self._redivisions: dict[int, tuple[Redivision, str]] = {}  # by identity: a state that was loaded has few

    def redivision_text(self, redivision: Redivision) -> str:
        """A redivision as JSON text."""
        if id(redivision) not in self._redivisions:
            self._redivisions[id(redivision)] = redivision, json.dumps(redivision.plain)
        return self._redivisions[id(redivision)][1]


_NO_CURSOR: Json = "no cursor"


class _ShardTexts:
    """The position of each shard as JSON text. A loop may save after every batch, so only what changed is encoded."""

    def __init__(self) -> None:
        self._shards: list[int] = []
        self._cursors: list[Json] = []
        self._texts: list[str] = []
        self._tokens: dict[int, tuple[Json, str]] = {}

    def text(self, cursors: Mapping[int, Json]) -> str:
        """The cursors as one JSON object."""
        now, shards = [*cursors.values()], [*cursors]
        if shards != self._shards:
            self._shards = shards
            self._cursors = [_NO_CURSOR] * len(shards)
            self._texts = [""] * len(shards)
        is_new = [*map(is_not, now, self._cursors)]
        self._cursors = now
        while True in is_new:
            place = is_new.index(True)
            is_new[place] = False
            self._texts[place] = self._cursor_text(shards[place], now[place])
        return f"{{{', '.join(self._texts)}}}"

    def _cursor_text(self, shard: int, cursor: Json) -> str:
        if cursor is None:
            return f'"{shard}": null'
        assert isinstance(cursor, list)
        token = cursor[0]
        last = self._tokens.get(shard)
        if last is None or last[0] is not token:  # elements of one block share it
            last = self._tokens[shard] = token, f'"{shard}": [{json.dumps(token)}, '
        return f"{last[1]}{cursor[1]}, {cursor[2]}]"


# A state that was loaded: checked, compared and restored.


class IndexedPosition(NamedTuple):
    """The place of a job in an indexed pipe.

    Attributes:
        consumed: all elements before this one are taken.
        beyond: the elements after it that are taken too, because ranks had taken different numbers of elements.
    """

    consumed: int
    beyond: tuple[range, ...] = ()

    @property
    def taken(self) -> int:
        """The number of elements that are taken."""
        return self.consumed + sum(map(len, self.beyond))


class StreamedPosition(NamedTuple):
    """The place of a rank in the data of a streamed pipe.

    Attributes:
        cursors: the plain cursors of the shards that have begun.
        ended: the shards that have ended, each with the plain cursor of its leftover rows.
        redivision: the rests that take the place of shards, if the number of ranks has changed in this pass.
        padding: the number of elements that the rank has repeated because other ranks have more.
        later: the redivisions of the next passes, if the number of ranks has changed when some were in these.
    """

    cursors: dict[int, Json]
    ended: dict[int, Json]
    redivision: Redivision | None = None
    padding: int = 0
    later: tuple[Redivision, ...] = ()

    def has_ended(self, shard: int) -> bool:
        """Whether a shard has ended; of a rest, nothing but leftover rows may be left from the beginning."""
        rests = {} if self.redivision is None else self.redivision.rests
        return shard in self.ended or (shard in rests and rests[shard].waits)

    def turns(self, shard: int) -> int:
        """The number of elements that a shard has given that has not ended."""
        return ShardState(self.cursors.get(shard)).at.position


class RankEntry(NamedTuple):
    """The entry of one rank in a gathered state."""

    step: int
    data_pass: int
    goal: int | None
    position: StreamedPosition | None
    skipped: LostCounts


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
        skipped: the numbers of rows of the epoch that were skipped.
    """

    seed: int
    epoch: int
    step: int
    data_pass: int
    rank: int
    world_size: int
    shards: int
    pipe: str
    code: str
    position: SavedPosition
    goal: int | None
    skipped: LostCounts = NONE_LOST

    @property
    def indexed(self) -> bool:
        return not self.shards


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
"""Each entry, with the least value of a number; None for a text."""
_SHARD = re.compile(r"0|[1-9][0-9]{0,17}")


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
        data_pass=numbers["data_epoch"],
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
        f"release of feedpipe that saved it, or begin its epoch again with {begin}"
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


def _without_skipped(place: str, position: Json) -> LostCounts:
    """Removes the numbers of skipped rows from a position, and returns them."""
    counts = position.pop("skipped", None) if isinstance(position, dict) else None
    if counts is None:
        return NONE_LOST
    place = f"{place}.skipped"
    if not isinstance(counts, list) or len(counts) != 2 or not isinstance(counts[0], dict):
        raise damaged(place, f"must have the rows skipped by each operator but is: {_shown(counts)}")
    if not all(map(_is_count, (*counts[0].values(), counts[1]))):
        raise damaged(place, f"must have whole numbers but is: {_shown(json.dumps(counts))}")
    return LostCounts(cast("dict[str, int]", counts[0]), cast("int", counts[1]))


def _rank_entry(place: str, entry: Json) -> RankEntry:
    if not isinstance(entry, list) or len(entry) != 4 or not all(map(_is_count, entry[:2])):
        raise damaged(place, f"must be step, data epoch, goal and position but is: {_shown(entry)}")
    step, data_pass, goal, position = cast("tuple[int, int, Json, Json]", entry)
    if type(goal) is not int:
        raise damaged(place, f"must have a whole number as goal but has: {_shown(goal)}")
    skipped = _without_skipped(place, position)
    streamed = None if position is None else _streamed(position, json.dumps(position))
    return RankEntry(step, data_pass, _goal(place, goal, step), streamed, skipped)


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
        raise damaged("position.beyond", f"is no range of elements after {consumed}: {_shown(part)}")
    return range(start, stop, step)


def _streamed(position: Json, text: str) -> StreamedPosition:
    if not isinstance(position, dict) or set(position) - {"cut", "later", "padding"} != {"cursors", "ended"}:
        raise damaged("position", f"is no place in a streamed pipe: {_shown(text)}")
    cursors, ended = (dict(_by_shard(name, position[name])) for name in ("cursors", "ended"))
    for shard, cursor in cursors.items():
        _check_cursor(f"position.cursors.{shard}", cursor)
    for shard, leftover in ended.items():
        if leftover is not None:
            _check_cursor(f"position.ended.{shard}", leftover)
    padding = position.get("padding", 0)
    if not _is_count(padding):
        raise damaged("position.padding", f"must be a whole number >= 0 but is: {_shown(padding)}")
    redivision = _redivision(position["cut"]) if "cut" in position else None
    later = position.get("later", [])
    if not isinstance(later, list) or (later and redivision is None):
        raise damaged("position.later", f"must have what is left of the next passes but is: {_shown(later)}")
    if redivision is None and not cursors and not ended:
        raise damaged("position", f"names no shard: {_shown(text)}")
    return StreamedPosition(cursors, ended, redivision, cast("int", padding), tuple(map(_redivision, later)))


def _redivision(plain: Json) -> Redivision:
    try:
        return Redivision.of(plain)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise damaged("position.cut", f"says wrongly what is left of the epoch: {_shown(json.dumps(plain))}") from None


def _parsed(text: str, place: str) -> Json:
    """The value of a JSON text in a state.

    Raises:
        StateError: it is no JSON, or nested deeper than that of any chain.
        RecursionError: the caller's stack leaves too little of Python's limit for a long chain.
    """
    with _reading(place, text, f"is no JSON: {_shown(text)}"):
        return cast("Json", json.loads(text))


@contextmanager
def _reading(name: str, text: str, problem: str) -> Generator[None]:
    """An error while a JSON text is read is damage, unless the caller's stack is too deep for a long chain."""
    try:
        yield
    except FeedpipeError:
        raise
    except (ValueError, RecursionError) as error:
        if isinstance(error, RecursionError) and _nesting(text) <= MAX_NESTING:
            raise
        raise damaged(name, problem) from None


def _nesting(text: str) -> int:
    """How deep lists and objects are nested in a JSON text."""
    depth = most = 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        most = max(most, depth)
    return most


def _by_shard(name: str, values: Json) -> Iterator[tuple[int, Json]]:
    if not isinstance(values, dict):
        raise damaged(f"position.{name}", f"must be an object but is: {_shown(values)}")
    for shard, value in values.items():
        if _SHARD.fullmatch(shard) is None:
            raise damaged(f"position.{name}", f"must have numbers of shards but has: {_shown(shard)}")
        yield int(shard), value


def _check_cursor(place: str, cursor: Json) -> None:
    if not isinstance(cursor, list) or len(cursor) != 3 or not all(map(_is_count, cursor[1:3])):
        raise damaged(place, f"is no cursor: {_shown(cursor)}")


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


def compare(saved: SavedState, signature: Signature, *, strict: bool, advises: bool = True) -> None:
    """Compares the pipe and the seed of a state with those of a loader.

    Raises:
        StateError: they differ, and `strict` is True; else each difference is a `StateWarning`.
    """
    pipe, code, seed = (signature.entries[name] for name in ("pipe", "code", "seed"))
    assert isinstance(pipe, str) and isinstance(code, str)
    with _reading("pipe", saved.pipe, NO_FINGERPRINT):
        lines = differences(saved.pipe, pipe)
    with _reading("code", saved.code, NO_FINGERPRINT):
        code_lines = code_differences(saved.code, code, pipe)
    if saved.seed != seed:
        lines.append(f"`seed` was {saved.seed} and is now {seed}")
    if lines and strict:
        advice = "; `strict=False` loads it in spite of that" if advises else ""
        raise StateError(f"this state is of another loader: {'; '.join(lines)}{advice}")
    for line in lines:
        warn(f"the state is loaded in spite of a difference: {line}", StateWarning)
    if saved.pipe == pipe:
        for line in code_lines:
            warn(f"{line} since the state was taken", StateWarning)


def restored(saved: SavedState, restore: Callable[[str], T]) -> T:
    """The result of `restore` for the fingerprint of the pipe in a state.

    Raises:
        StateError: it is no fingerprint.
    """
    with _reading("pipe", saved.pipe, NO_FINGERPRINT):
        return restore(saved.pipe)


def resumed_shards(saved: SavedState, plan: Plan) -> int:
    """The number of virtual shards that the loader of `plan` must have to go on from the position in a state.

    Raises:
        StateError: the position means nothing for this plan: only one of both is indexed, it is of another rank, or it
            has too many shards.
    """
    is_same_rank = (saved.world_size, saved.rank) == (plan.world_size, plan.rank)
    if saved.position is None and not (is_same_rank and saved.step):  # after a step, other ranks may have begun
        return plan.shards
    if plan.indexed != saved.indexed:
        if plan.root.indexed and plan.unsharded.loses_elements and (saved.world_size == 1) != (plan.world_size == 1):
            raise StateError(
                "rows of this pipe may be skipped, so one rank runs it by position, and several run it as a stream; "
                "its states go from one rank to several, or back, only at the end of an epoch"
            )
        raise StateError("only one of the state's pipe and this one is indexed, so no position means the same in both")
    if plan.indexed:
        return plan.shards
    if not is_same_rank:
        raise StateError(
            f"this state is of rank {saved.rank} of {saved.world_size} in the middle of an epoch, and this "
            f"is rank {plan.rank} of {plan.world_size}, where it says nothing of the other ranks; load the states of "
            "all ranks as a list, or save and load `gather_state(loader)`; at the end of an epoch the state of any "
            "rank will do"
        )
    return checked_shards(saved, plan)


def checked_shards(saved: SavedState, plan: Plan) -> int:
    """The shards of a state of a streamed pipe.

    Raises:
        StateError: they are too many for this plan.
    """
    if saved.shards > max(plan.shards, MAX_SHARDS_OF_RANK * plan.world_size):
        raise StateError(
            f"this state has {saved.shards} shards, and this loader {plan.shards}; if that is right, make the loader "
            f"with `shards={saved.shards}`"
        )
    return saved.shards  # the order of elements depends on it


def restore(saved: SavedState, plan: Plan) -> Progress:
    """The progress of a state in `plan`; of an indexed pipe, also for another number of ranks.

    Raises:
        StateError: the position lies outside the pipe, or no run of it comes there.
    """
    position = saved.position
    if not isinstance(position, IndexedPosition):
        return restore_streamed(saved, plan)
    _check_step(saved, plan)
    (consumed, beyond), length = position, position_count(plan.unsharded)
    if not (consumed or beyond) or consumed >= length + saved.world_size:  # padding goes beyond the length
        raise damaged("position.consumed", f"must be from 1 to {length}, the length of the pipe, but is: {consumed}")
    if any(part[-1] >= length + saved.world_size for part in beyond):
        raise damaged("position.beyond", f"must have elements below {length}, the length of the pipe")
    step = saved.step
    if saved.world_size != plan.world_size:
        step = step * saved.world_size // plan.world_size
    taken = consumed + sum(map(len, beyond))
    counts = share_of_lost([saved.skipped], plan.rank, plan.world_size)
    return Progress(saved.epoch, step, saved.data_pass, start=taken, beyond=beyond, skipped=counts)


def restore_streamed(saved: SavedState, plan: Plan) -> Progress:
    """As `restore`, for a streamed pipe, or before the first element."""
    _check_step(saved, plan)
    progress = Progress(saved.epoch, saved.step, saved.data_pass, goal=saved.goal, skipped=saved.skipped)
    if isinstance(saved.position, StreamedPosition):
        _check_turns(saved.position, plan)
        progress.cursors, progress.ended = dict(saved.position.cursors), dict(saved.position.ended)
        progress.redivision, progress.later = saved.position.redivision, saved.position.later
        if saved.position.padding > saved.step:
            raise damaged("position.padding", f"must be at most the step, which is {saved.step}")
        if saved.position.padding:
            progress.own_steps = saved.step - saved.position.padding
    return progress


def _check_step(saved: SavedState, plan: Plan) -> None:
    """Checks that the step lies in the epoch, unless `steps` set its length, which a state does not have."""
    is_redivided = isinstance(saved.position, StreamedPosition) and saved.position.redivision is not None
    if saved.epoch != saved.data_pass or saved.goal is not None or is_redivided:
        return
    if plan.indexed:
        most: int | None = position_count(plan.unsharded) // saved.world_size + 1
    else:
        most = plan.length(plan.rank, 0, saved.data_pass)
        if most is not None and saved.step > most:  # the longest rank may set the length
            most = max(plan.length(rank, 0, saved.data_pass) or 0 for rank in range(plan.world_size))
    if most is not None and saved.step > most:
        raise damaged("step", f"must be at most {most}, the elements of an epoch, but is: {saved.step}")


def in_turn(turns: Sequence[int]) -> bool:
    """Whether shards that take turns can have given these numbers of elements."""
    return not turns or (list(turns) == sorted(turns, reverse=True) and turns[0] - turns[-1] <= 1)


def _check_turns(position: StreamedPosition, plan: Plan) -> None:
    """Checks that the shards are of this rank and took turns: each gives one element, until it has ended."""
    shards = plan.shards_of_rank(position.redivision)
    foreign = [n for n in (*position.cursors, *position.ended) if n not in shards and n != plan.tail_shard]
    if foreign:
        raise damaged("position", f"names shard {foreign[0]}, which is not of rank {plan.rank} of {plan.world_size}")
    running = [shard for shard in shards if not position.has_ended(shard)]
    if running and (plan.tail_shard in position.cursors or plan.tail_shard in position.ended):
        raise damaged("position", f"has groups of leftover rows, but shard {running[0]} has not ended")
    turns = [position.turns(shard) for shard in running]
    if not in_turn(turns):
        raise damaged(
            "position.cursors",
            f"says that one shard gave {max(turns)} elements and another {min(turns)}, but they give one each in turn",
        )
    for shard in running if not plan.varies and position.redivision is None else ():
        length = plan.shard_stage(shard).length if position.turns(shard) else None
        if length is not None and position.turns(shard) > length:
            place = f"position.cursors.{shard}"
            raise damaged(place, f"is element {position.turns(shard)} of a shard that has {length} elements")
