"""Where a loader stands, and the state that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from ..core.cursor import Json
from ..engine.run import length_of
from ..errors import StateError
from ..plan.fingerprint import code_digest, fingerprint
from ..plan.plan import Plan, Position, ShardState

VERSION = 1

State = dict[str, Json]
"""A loader's state: what JSON holds."""


@dataclass
class Progress:
    """Where a loader stands: always after the last element that its consumer took.

    Attributes:
        epoch, step: of the loader; `step` elements of the epoch are taken.
        lap: which pass over the data; the epoch, unless an epoch is a number of steps.
        start: of an indexed pipe, elements of the lap that all ranks together had taken when this rank began.
        taken: elements of the lap that this rank has taken since.
        cursors: of the shards of a streamed pipe that have begun, plain.
        ended: the shards that have ended, with the cursor of their leftover, plain.
    """

    epoch: int = 0
    step: int = 0
    lap: int = 0
    start: int = 0
    taken: int = 0
    cursors: dict[int, Json] = field(default_factory=dict)
    ended: dict[int, Json] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether the lap has a position worth keeping."""
        return bool(self.taken or self.start or self.cursors or self.ended)

    def copy(self) -> Progress:
        return replace(self, cursors=dict(self.cursors), ended=dict(self.ended))

    def next_lap(self) -> Progress:
        return Progress(self.epoch, self.step, self.lap + 1)

    def next_epoch(self, *, by_steps: bool) -> Progress:
        if by_steps:
            return replace(self.copy(), epoch=self.epoch + 1, step=0)
        return Progress(self.epoch + 1, 0, self.epoch + 1)

    def position(self, plan: Plan) -> Position:
        if plan.indexed:
            return Position(self.start + self.taken * plan.world_size)
        shards = {shard: ShardState(cursor) for shard, cursor in self.cursors.items()}
        shards |= {shard: ShardState(None, True, leftover) for shard, leftover in self.ended.items()}
        return Position(0, shards)


def marks(plan: Plan) -> State:
    """What the states of a plan have in common: what they are checked against."""
    return {
        "feedpipe": VERSION,
        "fingerprint": fingerprint(plan.root),
        "code": code_digest(plan.root),
        "seed": plan.seed,
        "rank": plan.rank,
        "world_size": plan.world_size,
        "shards": plan.shards,
    }


def save(progress: Progress, plan: Plan, common: State) -> State:
    """The state that means `progress`. Called after every batch, so it only puts together what is there."""
    state = common.copy()
    state["epoch"] = progress.epoch
    state["step"] = progress.step
    state["lap"] = progress.lap
    if not progress.begun:
        state["position"] = None
    elif plan.indexed:
        state["position"] = {"consumed": progress.position(plan).start}
    else:
        state["position"] = {
            "shards": list(progress.cursors),
            "cursors": list(progress.cursors.values()),
            "ended": list(progress.ended),
            "leftovers": list(progress.ended.values()),
        }
    return state


def checked(state: object) -> State:
    """`state`, if it is a state at all, of this version and whole."""
    if not isinstance(state, Mapping) or "feedpipe" not in state:
        raise StateError(f"a state is the dict that `state_dict()` gave, and this is none: {str(state)[:80]}")
    if state["feedpipe"] != VERSION:
        raise StateError(f"this state is of version {state['feedpipe']!r}, and this feedpipe reads version {VERSION}")
    for name in ("seed", "rank", "world_size", "shards", "epoch", "step", "lap"):
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise StateError(f"`{name}` of the state must be a whole number but is: {value!r}")
    if not isinstance(state.get("position"), (Mapping, type(None))) or not isinstance(state.get("fingerprint"), list):
        raise StateError("the state is damaged: `position` or `fingerprint` is missing")
    return cast("State", dict(state))


def restore(state: State, plan: Plan) -> Progress:
    """The progress that `state` means for `plan`; a state of other ranks or shards only where it can be dealt anew."""
    epoch, step, lap = (cast("int", state[name]) for name in ("epoch", "step", "lap"))
    where = cast("State | None", state["position"])
    if where is None:
        return Progress(epoch, step, lap)
    try:
        if plan.indexed:
            consumed = where["consumed"]
            if type(consumed) is not int or not 0 <= consumed <= length_of(plan.undealt) + plan.world_size:
                raise ValueError(f"`consumed` is no number of elements of this pipe: {consumed!r}")
            if state["world_size"] != plan.world_size:
                step = step * cast("int", state["world_size"]) // plan.world_size
            return Progress(epoch, step, lap, start=consumed)
        cursors = dict(zip(_numbers(where["shards"]), cast("list[Json]", where["cursors"]), strict=True))
        ended = dict(zip(_numbers(where["ended"]), cast("list[Json]", where["leftovers"]), strict=True))
        for cursor in (*cursors.values(), *(left for left in ended.values() if left is not None)):
            _check_cursor(cursor)
        allowed = {*plan.mine, plan.tail_shard}
        if not allowed.issuperset([*cursors, *ended]):
            raise ValueError(f"shards {sorted({*cursors, *ended} - allowed)} are not of this rank")
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"`position` of the state is damaged: {error}") from error
    return Progress(epoch, step, lap, cursors=cursors, ended=ended)


def _numbers(values: Json) -> list[int]:
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise TypeError(f"these should be numbers of shards: {values!r}")
    return cast("list[int]", values)


def _check_cursor(cursor: Json) -> None:
    if not isinstance(cursor, list) or len(cursor) != 3 or not all(isinstance(n, int) and n >= 0 for n in cursor[1:]):
        raise ValueError(f"this should be a cursor: {cursor!r}")
