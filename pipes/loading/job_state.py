"""The states of all ranks of a job: gathered into one, checked together, and restored on any number of ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..errors import StateError
from ..plan.plan import Plan
from ..plan.shard_operators import elements_left, take_left
from .position_check import check_cursors
from .resume import resumed_elsewhere
from .schedule import Schedule
from .state import Progress, State, checked_shards, indexed_text, restore, resumed_shards
from .state_schema import (
    ALL_RANKS,
    MAX_STRAGGLING,
    NO_GOAL,
    IndexedPosition,
    JobPosition,
    SavedState,
    StreamedPosition,
    checksum,
    signature_checksum,
    validated,
)


def gathered(states: Sequence[State]) -> State:
    """One state of all ranks, made of the states of each of them.

    Raises:
        StateError: they are not the states of all ranks of one job.
    """
    saved = read_states(states)
    state = dict(states[0])
    if saved[0].indexed:
        one = merged(saved)
        state["step"], state["position"] = one.step, indexed_text(one.position)
    elif len(saved) > 1:
        by_rank = {one["rank"]: one for one in states}
        ranks = [by_rank[rank] for rank in range(len(saved))]
        entries = [[one["step"], one["data_epoch"], one["goal"], json.loads(str(one["position"]))] for one in ranks]
        state |= {"rank": ALL_RANKS, "step": min(one.step for one in saved), "data_epoch": saved[0].data_epoch}
        state |= {"goal": NO_GOAL, "position": json.dumps({"ranks": entries})}
    state["checksum"] = checksum(signature_checksum(state), state)
    return state


def read_states(state: object) -> list[SavedState]:
    """The states that `load_state_dict` was given, checked: that of one rank, or those of all ranks in their order.

    Raises:
        StateError: one of them is no state or damaged, or they are not the states of all ranks of one job.
    """
    if isinstance(state, Sequence) and not isinstance(state, (str, bytes)):
        states = [_validated(place, one) for place, one in enumerate(state)]
        _check_one_job(states)
        return sorted(states, key=lambda one: one.rank)
    saved = validated(state)
    if saved.indexed or saved.rank != ALL_RANKS:
        return [saved]
    if not isinstance(saved.position, JobPosition):  # nothing of the epoch is taken
        return [replace(saved, rank=rank) for rank in range(saved.world_size)]
    return [replace(saved, rank=rank, **entry._asdict()) for rank, entry in enumerate(saved.position.ranks)]


def shards_of_job(states: Sequence[SavedState], plan: Plan) -> int:
    """How many virtual shards the loader of `plan` must have to go on from these states.

    Raises:
        StateError: they mean nothing for this plan.
    """
    if (one := _serving(states, plan)) is not None:
        return resumed_shards(one, plan)
    shards = checked_shards(states[0], plan)
    return plan.shards if shards % plan.world_size else shards


def restore_job(states: Sequence[SavedState], schedule: Schedule) -> Progress:
    """The progress that the states of a job mean for the rank of a schedule.

    Raises:
        StateError: a position lies outside the pipe, or no run of it comes there.
    """
    plan = schedule.plan
    if states[0].indexed:
        return restore(merged(states), plan)
    one = _serving(states, plan)
    progress = resumed_elsewhere(states, schedule) if one is None else restore(one, plan)
    check_cursors(progress.position(plan), plan)
    return progress


def _serving(states: Sequence[SavedState], plan: Plan) -> SavedState | None:
    """The state that the rank of `plan` goes on from by itself; None if it needs those of all ranks."""
    first = states[0]
    if plan.indexed or first.indexed or len(states) < first.world_size or all(one.position is None for one in states):
        return first
    if first.world_size != plan.world_size:
        return None
    one = states[plan.rank]
    # A rank that has not begun stands in the middle of the epoch nevertheless, so the shards stay as they are.
    return one if one.position is not None else replace(one, position=StreamedPosition({}, {}))


def merged(states: Sequence[SavedState]) -> SavedState:
    """The states of all ranks of an indexed pipe as one; of each rank, other elements may be taken."""
    first = states[0]
    world_size = first.world_size
    if all(one.position == first.position and one.step == first.step for one in states):
        return first
    places = [one.position if isinstance(one.position, IndexedPosition) else IndexedPosition(0) for one in states]
    last = min(places, key=lambda place: place.taken)
    leads = [place.taken - last.taken for place in places]
    if max(leads) > MAX_STRAGGLING:
        raise StateError(f"one rank of this job is {max(leads) // world_size} elements behind another")
    for number, (place, lead) in enumerate(zip(places, leads, strict=True)):
        if lead % world_size or take_left(last.taken, last.beyond, lead) != (place.taken, place.beyond):
            raise StateError(
                f"state {number} of the list comes from another resume than the state that is furthest behind, so they "
                "are not of one job; give states that were saved together"
            )
    # The rank that is furthest behind says what was left; of that, each rank has taken its own elements.
    left, behind = elements_left(last.taken, last.beyond)
    ranges = list(last.beyond)
    for rank, lead in enumerate(leads):
        ranges += _elements_at(range(rank, lead, world_size), left, behind)
    step = sum(one.step for one in states) // world_size
    return replace(first, step=step, position=_from_first_left(last.consumed, ranges))


def _elements_at(places: range, left: npt.NDArray[np.int64], behind: int) -> list[range]:
    """The elements at these places among those of `left` and all from `behind` on."""
    within = left[places.start : places.stop : places.step]
    rest = places[len(within) :]
    shift = behind - len(left)
    return _evenly_spaced(within) + ([range(rest.start + shift, rest.stop + shift, rest.step)] if rest else [])


def _evenly_spaced(places: npt.NDArray[np.int64]) -> list[range]:
    """Increasing numbers as ranges."""
    ends = [*(np.flatnonzero(np.diff(places, 2)) + 2).tolist(), len(places)]  # behind the last one of a spacing
    runs = [places[start:end].tolist() for start, end in pairwise([0, *ends])]
    return [range(run[0], run[-1] + 1, run[1] - run[0] if len(run) > 1 else 1) for run in runs if run]


def _from_first_left(consumed: int, ranges: Sequence[range]) -> IndexedPosition:
    """The position with as large a `consumed` as there is."""
    taken = consumed + sum(map(len, ranges))
    left, behind = elements_left(taken, ranges)
    first = int(left[0]) if len(left) else behind
    rest = (part[len(range(part.start, min(first, part.stop), part.step)) :] for part in ranges)
    return IndexedPosition(first, tuple(part for part in rest if part))


def _validated(place: int, state: object) -> SavedState:
    try:
        return validated(state)
    except StateError as error:
        raise StateError(f"state {place} of the list: {error}") from None


def _check_one_job(states: Sequence[SavedState]) -> None:
    """Checks that these are the states of all ranks of one job, at one place in it.

    Raises:
        StateError: a rank is missing, there twice, or of another job; the message names it.
    """
    if not states:
        raise StateError("a list of states must have the state of each rank but is empty")
    first = states[0]
    for name in ("world_size", "shards", "seed", "pipe", "code", "epoch"):
        check_equal(states, name)
    ranks = [one.rank for one in states]
    if not first.indexed:
        if ALL_RANKS in ranks:
            raise StateError("a gathered state has the states of all ranks already; load it alone, not in a list")
        missing = sorted(set(range(first.world_size)) - set(ranks))
        doubled = sorted({rank for rank in ranks if ranks.count(rank) > 1})
        if missing:
            raise StateError(
                f"the list has no state of {_ranks(missing)} of {first.world_size}; give that of each rank"
            )
        if doubled:
            raise StateError(f"the list has more than one state of {_ranks(doubled)} of {first.world_size}")
    if len(states) != first.world_size:
        raise StateError(
            f"the list has {len(states)} states of a job of {first.world_size} ranks; give that of each rank"
        )


def check_equal(states: Sequence[SavedState], name: str) -> None:
    by_value: dict[object, list[int]] = {}
    for place, one in enumerate(states):
        by_value.setdefault(getattr(one, name), []).append(place if one.rank == ALL_RANKS else one.rank)
    if len(by_value) == 1:
        return
    (value, ranks), (other_value, other_ranks), *_ = by_value.items()
    shown = "" if name in ("pipe", "code") else f": {value} and {other_value}"
    raise StateError(
        f"the states of {_ranks(ranks)} and {_ranks(other_ranks)} are not of one job, because their `{name}` "
        f"differs{shown}"
    )


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
