"""`Progress`, where a loader stands, and the state that saves it: made, validated, compared and restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from ..core.cursor import Json
from ..core.signals import raised_by_signal_handler
from ..engine.run import length_of
from ..errors import StateError, StateWarning, warn
from ..plan.fingerprint import code_digest, differences, fingerprint
from ..plan.plan import Plan, Position, ShardState

VERSION = 1

State = dict[str, Json]
"""The state of a loader: a dict of plain JSON values."""


@dataclass
class Progress:
    """Where a loader stands: always after the last element that its consumer took.

    Attributes:
        epoch: the epoch of the loader.
        step: how many elements of the epoch this rank has taken.
        data_epoch: which pass over the data; the same as `epoch`, unless `steps` sets the length of an epoch.
        start: of an indexed pipe, how many elements of the pass all ranks together had taken when this rank began.
        taken: how many elements of the pass this rank has taken since.
        cursors: the plain cursors of the shards of a streamed pipe that have begun.
        ended: the shards that have ended, each with the plain cursor of its leftover rows.
    """

    epoch: int = 0
    step: int = 0
    data_epoch: int = 0
    start: int = 0
    taken: int = 0
    cursors: dict[int, Json] = field(default_factory=dict)
    ended: dict[int, Json] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether any element of the pass over the data is taken."""
        return bool(self.taken or self.start or self.cursors or self.ended)

    def copy(self) -> Progress:
        return replace(self, cursors=dict(self.cursors), ended=dict(self.ended))

    def next_data_epoch(self) -> Progress:
        """The beginning of the next pass over the data, in the same epoch."""
        return Progress(self.epoch, self.step, self.data_epoch + 1)

    def next_epoch(self, *, by_steps: bool) -> Progress:
        """The beginning of the next epoch; with `by_steps` it goes on at the same place of the data."""
        if by_steps:
            return replace(self.copy(), epoch=self.epoch + 1, step=0)
        return Progress(self.epoch + 1, 0, self.epoch + 1)

    def position(self, plan: Plan) -> Position:
        """The place in the data, for a service that runs `plan`."""
        if plan.indexed:
            return Position(self.start + self.taken * plan.world_size)
        shards = {shard: ShardState(cursor) for shard, cursor in self.cursors.items()}
        shards |= {shard: ShardState(None, True, leftover) for shard, leftover in self.ended.items()}
        return Position(0, shards)


def plan_signature(plan: Plan) -> State:
    """The entries that all states of a plan have in common. A loaded state is compared with them."""
    return {
        "feedpipe": VERSION,
        "fingerprint": fingerprint(plan.root),
        "code": code_digest(plan.root),
        "seed": plan.seed,
        "rank": plan.rank,
        "world_size": plan.world_size,
        "shards": plan.shards,
    }


def save(progress: Progress, plan: Plan, signature: State) -> State:
    """The state of `progress`. A loop may save after every batch, so this only copies what is there."""
    state = signature.copy()
    state["epoch"] = progress.epoch
    state["step"] = progress.step
    state["lap"] = progress.data_epoch
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


def validated(state: object) -> State:
    """A copy of `state`.

    Raises:
        StateError: it is no state, of another version, or lacks an entry.
    """
    if not isinstance(state, Mapping) or "feedpipe" not in state:
        raise StateError(f"a state must be a dict that `state_dict()` returned but got: {str(state)[:80]}")
    if state["feedpipe"] != VERSION:
        raise StateError(f"this state is of version {state['feedpipe']!r}, and this feedpipe reads version {VERSION}")
    for name in ("seed", "rank", "world_size", "shards", "epoch", "step", "lap"):
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise StateError(f"`{name}` of the state must be a whole number but is: {value!r}")
    if not isinstance(state.get("position"), (Mapping, type(None))) or not isinstance(state.get("fingerprint"), list):
        raise StateError("the state is damaged: `position` or `fingerprint` is missing")
    return cast("State", dict(state))


def compare(saved: State, signature: State, *, strict: bool) -> None:
    """Compares the pipe and the seed of a state with those of a loader.

    Raises:
        StateError: they differ, and `strict` is True; else each difference is a `StateWarning`.
    """
    lines = differences(cast("list[Json]", saved["fingerprint"]), cast("list[Json]", signature["fingerprint"]))
    if saved["seed"] != signature["seed"]:
        lines.append(f"`seed` was {saved['seed']} and is now {signature['seed']}")
    if lines and strict:
        raise StateError(
            "this state is of another loader: " + "; ".join(lines) + "; `strict=False` loads it in spite of that"
        )
    for line in lines:
        warn(f"the state is loaded in spite of a difference: {line}", StateWarning)
    if saved.get("code") != signature["code"] and not lines:
        warn("the code of a function in the pipe has changed since the state was taken", StateWarning)


def resumed_shards(saved: State, plan: Plan) -> int:
    """How many virtual shards the loader of `plan` must have to go on from the position in a state.

    Raises:
        StateError: the position means nothing for this plan: only one of both is indexed, or it is of another rank.
    """
    if saved["position"] is None:
        return plan.shards
    if plan.indexed != (saved["shards"] == 0):
        raise StateError("only one of the state's pipe and this one is indexed, so no position means the same in both")
    if plan.indexed:
        return plan.shards
    if (saved["world_size"], saved["rank"]) != (plan.world_size, plan.rank):
        raise StateError(
            f"this state is of rank {saved['rank']} of {saved['world_size']} in the middle of an epoch, and this "
            f"is rank {plan.rank} of {plan.world_size}; a streamed pipe must go on with the same number of ranks, each "
            "from its own state; at the end of an epoch any number will do"
        )
    return cast("int", saved["shards"])  # the order of elements depends on it


def restore(state: State, plan: Plan) -> Progress:
    """The progress that a state means for `plan`; of an indexed pipe, also for another number of ranks.

    Raises:
        StateError: the position is damaged, or lies outside the pipe.
    """
    epoch, step, data_epoch = (cast("int", state[name]) for name in ("epoch", "step", "lap"))
    position = cast("State | None", state["position"])
    if position is None:
        return Progress(epoch, step, data_epoch)
    try:
        if plan.indexed:
            consumed = position["consumed"]
            if type(consumed) is not int or not 0 <= consumed <= length_of(plan.unsharded) + plan.world_size:
                raise ValueError(f"`consumed` is no number of elements of this pipe: {consumed!r}")
            if state["world_size"] != plan.world_size:
                step = step * cast("int", state["world_size"]) // plan.world_size
            return Progress(epoch, step, data_epoch, start=consumed)
        cursors = dict(zip(_numbers(position["shards"]), cast("list[Json]", position["cursors"]), strict=True))
        ended = dict(zip(_numbers(position["ended"]), cast("list[Json]", position["leftovers"]), strict=True))
        for cursor in (*cursors.values(), *(leftover for leftover in ended.values() if leftover is not None)):
            _check_cursor(cursor)
        allowed = {*plan.rank_shards, plan.tail_shard}
        if not allowed.issuperset([*cursors, *ended]):
            raise ValueError(f"shards {sorted({*cursors, *ended} - allowed)} are not of this rank")
    except (KeyError, TypeError, ValueError) as error:
        if raised_by_signal_handler(error):
            raise
        raise StateError(f"`position` of the state is damaged: {error}") from error
    return Progress(epoch, step, data_epoch, cursors=cursors, ended=ended)


def _numbers(values: Json) -> list[int]:
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise TypeError(f"these should be numbers of shards: {values!r}")
    return cast("list[int]", values)


def _check_cursor(cursor: Json) -> None:
    if not isinstance(cursor, list) or len(cursor) != 3 or not all(isinstance(n, int) and n >= 0 for n in cursor[1:]):
        raise ValueError(f"this should be a cursor: {cursor!r}")
