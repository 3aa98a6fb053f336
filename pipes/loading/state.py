"""`Progress`: the place of a loader, and the state that saves it: made, checked, compared and restored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_not
from typing import Any, NamedTuple, cast
from zlib import crc32

from ..core.cursor import Json
from ..core.origins import Account
from ..core.taken import Taken
from ..engine.run import position_count
from ..engine.skips import NONE_LOST, LostCounts, share_of_lost
from ..errors import StateError, StateWarning, warn
from ..plan.fingerprint import Fingerprint, code_differences, differences
from ..plan.plan import Plan, Position
from ..plan.rests import Redivision
from .ledger import NO_NUMBERS, Numbers, NumbersText

VERSION = 5
ALL_RANKS = -1
"""The `rank` of a state that serves all ranks."""
NO_GOAL = -1
"""The `goal` of a state if the plan alone determines the end of the epoch."""
MAX_STRAGGLING = 2**24
"""The most elements that a rank of an indexed pipe may be behind the others."""
MAX_SHARDS_OF_RANK = 1024
"""A state with more shards for each rank is refused unless the loader has as many: to plan them takes long."""
State = dict[str, Json]
"""The state of a loader: fourteen entries, always the same, each a str or an int."""


class Counted(NamedTuple):
    """A place in an indexed pipe up to which the rows of named sources are counted.

    Attributes:
        data_pass: the pass over the data.
        taken: the elements of it.
        redivision: the rest of the pass that they are counted in, if the pipe has changed in it.
        rows, rows_before: the packed numbers of the ledger there, in this pass and in all passes before.
    """

    data_pass: int
    taken: Taken
    redivision: Redivision | None
    rows: int
    rows_before: int


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
        redivision: the rests that take the place of shards, if the number of ranks or the pipe has changed in this
            pass; of an indexed pipe the rest of the pass, if the pipe has changed.
        later: the same of the next passes, if some ranks had come to these.
        skipped: the numbers of rows of the epoch that were skipped on this rank.
        goal: the step at which the epoch ends, if the plan does not say it because the number of ranks has changed.
        own_steps: of a streamed pipe, the step at which this rank had no more elements and began to repeat some.
        rows: the packed numbers of the ledger in this pass; of an indexed pipe, those of all ranks at `start`.
        rows_before: those of all passes before.
        accounts: what these count, if the pipe of the state had sources that the plan has not.
        counted: of an indexed pipe, the place at which the numbers are known, if it is not `start`.
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
    rows: int = field(default=0, compare=False)
    rows_before: int = field(default=0, compare=False)
    accounts: tuple[Account, ...] = field(default=(), compare=False)
    counted: Counted | None = field(default=None, compare=False)
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
        following.rows_before, following.accounts = self.rows + self.rows_before, self.accounts
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

    def elements(self, plan: Plan) -> Taken:
        """Of an indexed pipe, the elements of the pass that all ranks together have taken."""
        taken = self.taken_by_all(plan)
        return Taken(self.start, self.beyond).after(taken - self.start) if self.beyond else Taken(taken)

    def position(self, plan: Plan) -> Position:
        """The place in the data for a service that runs `plan`."""
        if plan.indexed:
            return Position(self.elements(plan), redivision=self.redivision)
        return Position(cursors=dict(self.cursors), ended=self.ended, redivision=self.redivision)


def save(progress: Progress, plan: Plan, signature: Signature, numbers: Numbers = NO_NUMBERS) -> State:
    """The state of `progress`. Loops save after each element, so it is written for speed."""
    has_skipped = bool(progress.skipped.skipped)
    if not progress.taken and not progress.begun and (plan.indexed or not has_skipped):
        position = "null"
    elif plan.indexed:
        if not progress.beyond:
            position = f'{{"consumed": {progress.taken_by_all(plan)}'
        else:
            position = indexed_text(Position(progress.elements(plan)))[:-1]
        if progress.redivision is not None:
            position += f', "cut": {signature.redivision_text(progress.redivision)}'
        position += "}"
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
    if has_skipped and position != "null" and (plan.world_size == 1 or not plan.indexed):
        position = f'{position[:-1]}, "skipped": {json.dumps(progress.skipped.plain)}}}'
    state = signature.entries.copy()
    state["epoch"] = epoch = progress.epoch
    state["step"] = step = progress.step
    state["data_epoch"] = data_pass = progress.data_pass
    state["position"] = position
    goal = NO_GOAL
    if progress.goal is not None:
        state["goal"] = goal = progress.goal
    ledger = "{}"
    if numbers.accounts:
        state["ledger"] = ledger = signature.numbers.of(numbers)
    state["checksum"] = crc32(f"{epoch} {step} {data_pass} {goal} {position} {ledger}".encode(), signature.checksum)
    return state


def indexed_text(position: Position | None) -> str:
    """The JSON text of a position in an indexed pipe."""
    if position is None:
        return "null"
    entries: dict[str, Json] = {"consumed": position.taken.first}
    if position.taken.beyond:
        entries["beyond"] = [[part.start, part.stop, part.step] for part in position.taken.beyond]
    if position.redivision is not None:
        entries["cut"] = position.redivision.plain
    return json.dumps(entries)


def signature_checksum(entries: Mapping[str, Json]) -> int:
    """The checksum of the entries that all states of a loader have in common."""
    names = ("feedpipe", "seed", "rank", "world_size", "shards", "pipe", "code")
    return crc32(json.dumps([entries[name] for name in names]).encode())


def checksum(signature: int, entries: Mapping[str, Json]) -> int:
    """The checksum of a state, from that of its signature."""
    epoch, step, data_pass = entries["epoch"], entries["step"], entries["data_epoch"]
    rest = f"{entries['goal']} {entries['position']} {entries['ledger']}"
    return crc32(f"{epoch} {step} {data_pass} {rest}".encode(), signature)


class Signature:
    """The part that all states of a plan have in common. A loaded state is compared with it.

    Attributes:
        entries: the entries of a state, in their order; those that differ between states are placeholders.
        pipe: the fingerprint of the operators.
        checksum: of the entries that all states share; the checksum of a state goes on from it.
        cursors, ended: the JSON text of the position of each shard.
        numbers: that of the ledger.
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
            "ledger": "{}",
            "checksum": 0,
            "goal": NO_GOAL,
        }
        self.pipe = fingerprint.pipe
        self.checksum = signature_checksum(self.entries)
        self.cursors = _ShardTexts()
        self.ended = _ShardTexts()
        self.numbers = NumbersText()
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
        if last is None or last[0] != token:  # those of one block are equal
            last = self._tokens[shard] = token, f'"{shard}": [{json.dumps(token)}, '
        return f"{last[1]}{cursor[1]}, {cursor[2]}]"


# A state that was loaded: checked, compared and restored.


@dataclass(frozen=True)
class SavedState:
    """A valid state.

    Attributes:
        pipe, code: the fingerprint of the pipe and of its functions.
        position: the place of all ranks in an indexed pipe, or of one rank in a streamed one; None before the first
            element of a pass over the data, and if the state has `ranks`.
        goal: the step at which the epoch ends; None if the plan says it.
        skipped: the numbers of rows of the epoch that were skipped.
        padding: the number of elements that the rank has repeated because other ranks have more.
        later: the redivisions of the next passes, if the number of ranks has changed when some were in these.
        numbers: of the ledger; `counted` is their place if it is not `position`, as ranks of an indexed pipe have taken
            different numbers of elements.
        ranks: the states of all ranks of a streamed pipe, if this one was gathered in the middle of a pass.
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
    position: Position | None = None
    goal: int | None = None
    skipped: LostCounts = NONE_LOST
    padding: int = 0
    later: tuple[Redivision, ...] = ()
    numbers: Numbers = NO_NUMBERS
    counted: Taken | None = None
    ranks: tuple[SavedState, ...] = ()

    @property
    def indexed(self) -> bool:
        return not self.shards


_TEXTS = ("pipe", "code", "position", "ledger")
_NUMBERS = (
    *("feedpipe", "seed", "epoch", "step", "data_epoch", "rank", "world_size", "shards"),
    *("checksum", "goal"),
)


def validated(state: object) -> SavedState:
    """The state, if it is as `state_dict` made it: its checksum is that of its entries.

    Raises:
        StateError: it is no state, of another version, or was changed.
    """
    if not isinstance(state, Mapping) or "feedpipe" not in state:
        raise StateError(f"a state must be a dict that `state_dict()` returned but got: {_shown(state)}")
    _check_version(state)
    entries = cast("Mapping[str, Any]", state)
    if not _is_as_made(entries):
        raise StateError(
            "the state is damaged: its `checksum` does not fit its other entries; it was changed, or mixed from the "
            "states of several ranks; load what `state_dict()` returned, on each rank its own, or save and load "
            "`gather_state(loader)`, which is the same on all ranks"
        )
    one = SavedState(
        seed=entries["seed"],
        epoch=entries["epoch"],
        step=entries["step"],
        data_pass=entries["data_epoch"],
        rank=entries["rank"],
        world_size=entries["world_size"],
        shards=entries["shards"],
        pipe=entries["pipe"],
        code=entries["code"],
        numbers=Numbers.of(entries["ledger"]),
    )
    position = json.loads(entries["position"])
    if position and "ranks" in position:
        return replace(one, ranks=tuple(_of_rank(one, *entry) for entry in position["ranks"]))
    return _of_rank(one, one.step, one.data_pass, entries["goal"], position)


def _of_rank(one: SavedState, step: int, data_pass: int, goal: int, position: Any) -> SavedState:
    """A state with the entries in which ranks differ, of which the position is JSON."""
    own = replace(one, step=step, data_pass=data_pass, goal=None if goal == NO_GOAL else goal)
    if position is None:
        return own
    beyond = tuple(range(*part) for part in position.get("beyond", ()))
    taken = Taken(position.get("consumed", 0) + sum(map(len, beyond)), beyond)
    names = "cursors", "ended"
    cursors, ended = ({int(shard): cursor for shard, cursor in position.get(name, {}).items()} for name in names)
    redivision = Redivision.of(position["cut"]) if "cut" in position else None
    return replace(
        own,
        position=Position(taken, cursors, ended, redivision),
        skipped=LostCounts(*position["skipped"]) if "skipped" in position else NONE_LOST,
        padding=position.get("padding", 0),
        later=tuple(map(Redivision.of, position.get("later", ()))),
    )


def _is_as_made(entries: Mapping[str, Any]) -> bool:
    """Whether a state has the entries that `save` wrote."""
    if set(entries) != {*_TEXTS, *_NUMBERS}:
        return False
    if any(type(entries[name]) is not str for name in _TEXTS) or any(
        type(entries[name]) is not int for name in _NUMBERS
    ):
        return False
    try:
        return bool(entries["checksum"] == checksum(signature_checksum(entries), entries))
    except ValueError:  # an int of thousands of digits, or text that is no Unicode
        return False


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


def compare(
    saved: SavedState, signature: Signature, *, strict: bool, advises: bool = True, reason: str | None = None
) -> None:
    """Compares the pipe and the seed of a state with those of a loader; `reason` says why it cannot go on with others.

    Raises:
        StateError: they differ, and `strict` is True; else each difference is a `StateWarning`.
    """
    pipe, code, seed = (signature.entries[name] for name in ("pipe", "code", "seed"))
    assert isinstance(pipe, str) and isinstance(code, str)
    lines = differences(saved.pipe, pipe)
    code_lines = code_differences(saved.code, code, pipe)
    if saved.seed != seed:
        lines.append(f"`seed` was {saved.seed} and is now {seed}")
    if lines and strict:
        advice = "; `strict=False` loads it in spite of that" if advises else ""
        why = "" if reason is None else f"; it does not go on, because {reason}"
        raise StateError(f"this state is of another loader: {'; '.join(lines)}{why}{advice}")
    for line in lines:
        warn(f"the state is loaded in spite of a difference: {line}", StateWarning)
    if saved.pipe == pipe:
        for line in code_lines:
            warn(f"{line} since the state was taken", StateWarning)


def resumed_shards(saved: SavedState, plan: Plan) -> int:
    """The number of virtual shards that the loader of `plan` must have to go on from the position in a state."""
    if saved.position is None:
        # Other ranks may be in the middle of the epoch, so all ranks keep the shards of the state.
        is_of_same_job = not plan.indexed and not saved.indexed and saved.world_size == plan.world_size
        return checked_shards(saved, plan) if is_of_same_job else plan.shards
    if plan.indexed != saved.indexed:
        if plan.has_positions:
            raise StateError(
                "a policy such as `on_error` leaves out elements of only one of the state's pipe and this one, so no "
                "position of several ranks means the same in both; keep the policy until the end of the epoch"
            )
        raise StateError("only one of the state's pipe and this one is indexed, so no position means the same in both")
    if plan.indexed:
        return plan.shards
    if (saved.world_size, saved.rank) != (plan.world_size, plan.rank):
        raise StateError(
            f"this state is of rank {saved.rank} of {saved.world_size} in the middle of an epoch, and this "
            f"is rank {plan.rank} of {plan.world_size}, where it says nothing of the other ranks; load the states of "
            "all ranks as a list, or save and load `gather_state(loader)`; at the end of an epoch the state of any "
            "rank will do"
        )
    return checked_shards(saved, plan)


def checked_shards(saved: SavedState, plan: Plan) -> int:
    """The shards of a state of a streamed pipe."""
    if saved.shards > max(plan.shards, MAX_SHARDS_OF_RANK * plan.world_size):
        raise StateError(
            f"this state has {saved.shards} shards, and this loader {plan.shards}; if that is right, make the loader "
            f"with `shards={saved.shards}`"
        )
    return saved.shards  # the order of elements depends on it


def restore(saved: SavedState, plan: Plan) -> Progress:
    """The progress of a state in `plan`; of an indexed pipe, also for another number of ranks."""
    position = saved.position
    if position is None or not saved.indexed:
        return restore_streamed(saved, plan)
    taken, redivision = position.taken, position.redivision
    length = position_count(plan.indexed_pass(redivision))
    if not (taken.total or redivision) or taken.first >= length + saved.world_size:  # padding goes beyond the length
        raise damaged("position.consumed", f"must be from 1 to {length}, the length of the pipe, but is: {taken.first}")
    if any(part[-1] >= length + saved.world_size for part in taken.beyond):
        raise damaged("position.beyond", f"must have elements below {length}, the length of the pipe")
    step = saved.step
    if saved.world_size != plan.world_size:
        step = step * saved.world_size // plan.world_size
    progress = Progress(saved.epoch, step, saved.data_pass, start=taken.total, beyond=taken.beyond)
    progress.skipped = share_of_lost([saved.skipped], plan.rank, plan.world_size)
    progress.redivision = redivision
    with_numbers(progress, saved.numbers, plan)
    if saved.counted is not None:
        progress.counted = Counted(saved.data_pass, saved.counted, redivision, progress.rows, progress.rows_before)
    return progress


def restore_streamed(saved: SavedState, plan: Plan) -> Progress:
    """As `restore`, for a streamed pipe, or before the first element."""
    progress = Progress(saved.epoch, saved.step, saved.data_pass, goal=saved.goal, skipped=saved.skipped)
    if (position := saved.position) is not None:
        progress.cursors, progress.ended = dict(position.cursors), dict(position.ended)
        progress.redivision, progress.later = position.redivision, saved.later
    if saved.padding:
        progress.own_steps = saved.step - saved.padding
    return with_numbers(progress, saved.numbers, plan)


def with_numbers(progress: Progress, numbers: Numbers, plan: Plan) -> Progress:
    """The progress, with the numbers of a ledger."""
    accounts, progress.rows, progress.rows_before = numbers.in_accounts(plan.accounts)
    progress.accounts = () if accounts == plan.accounts else accounts
    return progress


def in_turn(turns: Sequence[int]) -> bool:
    """Whether shards that take turns can have given these numbers of elements."""
    return not turns or (list(turns) == sorted(turns, reverse=True) and turns[0] - turns[-1] <= 1)
