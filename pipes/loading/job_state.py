"""The states of all ranks of a job: gathered, checked together, and restored on any number of ranks."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..core.context import RowShare
from ..core.cursor import START, Cursor, Json
from ..core.taken import Taken
from ..engine.run import position_count
from ..engine.skips import share_of_lost
from ..errors import ArgumentError, LoaderError, StateError
from ..plan.edits import Edit, EditError, Passing
from ..plan.plan import Plan, Position
from ..plan.rests import AS_IT_IS, ROOT, Redivision, Rest, Start, dealt, numbered
from .ledger import Ledger, Numbers
from .ranks import RankSource
from .schedule import Schedule
from .state import (
    ALL_RANKS,
    MAX_STRAGGLING,
    NO_GOAL,
    Progress,
    SavedState,
    State,
    checked_shards,
    checksum,
    in_turn,
    indexed_text,
    restore,
    resumed_shards,
    signature_checksum,
    validated,
    with_numbers,
)

if TYPE_CHECKING:
    from ..torch.ranks import Group, SideGroup


_CONSTANTS = ("feedpipe", "seed", "epoch", "world_size", "shards", "pipe", "code")
"""The entries that the states of all ranks of a job have in common."""
_DIGEST_NUMBERS = 2
"""The whole numbers of a digest."""


def gather(
    state: State,
    ranks: RankSource,
    group: Group | None,
    numbers_of: Callable[[SavedState], Numbers],
    receiver: int | None = None,
) -> State | None:
    """One state of all ranks. All of them call it together, each with its own state.

    The ranks compare digests first. What differs between them is a few hundred bytes of each; the constants, such as
    the fingerprint of the pipe, stay where they are.

    Args:
        state: of this rank.
        ranks: the source of the rank.
        group: the ranks that share the data.
        numbers_of: finds the numbers of the ledger at a place of an indexed pipe.
        receiver: the rank that gets the state, and the others None; without it, all get it.

    Raises:
        ArgumentError: `receiver` is no rank.
        LoaderError: there is no process group, or its ranks are not those of the loader.
        StateError: the states are not those of all ranks of one job.
        RankError: a rank does not answer.
    """
    rank = ranks.ask()
    if receiver is not None and receiver >= rank.world_size:
        raise ArgumentError(f"`rank` must be below the world size of {rank.world_size} but got: {receiver}")
    if rank.world_size == 1:
        return state
    side = group_of_job(ranks, group, "gather_state", "give `load_state_dict` the states of all ranks as a list")
    constants, part = constants_of(state), part_of(state)
    digests = side.post("gather_state", [*_digest(constants), *_digest(part)]).result()
    of_constants = [digest[:_DIGEST_NUMBERS] for digest in digests]
    others = [number for number, digest in enumerate(of_constants) if digest != of_constants[0]]
    if others:
        those = [number for number in others if of_constants[number] == of_constants[others[0]]]
        equal = [number for number in range(rank.world_size) if number not in set(others)]
        asked = rank.number in (0, others[0])
        texts = side.gather("gather_state: what differs", constants if asked else b"")
        raise _other_constants(json.loads(texts[0]), equal, json.loads(texts[others[0]]), those)
    if not state["shards"] and all(digest == digests[0] for digest in digests):
        return state if receiver in (None, rank.number) else None  # an indexed pipe has one place for all ranks
    parts = side.gather("gather_state: places", part, receiver=receiver)
    return joined(state, parts, numbers_of) if receiver in (None, rank.number) else None


def group_of_job(ranks: RankSource, group: Group | None, function: str, otherwise: str) -> SideGroup:
    """The means of this rank to send messages to the others, for a public function."""
    rank = ranks.ask()
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        raise LoaderError(
            f"`{function}` needs a process group to hear of the other ranks, and this is {rank} without one; call "
            f"`torch.distributed.init_process_group`, or {otherwise}"
        )
    from ..torch.ranks import members, side_group

    group = group or ranks.group
    place = members(group)
    if (place.rank, len(place.ranks)) != rank:
        raise LoaderError(
            f"this loader is {rank}, and this process is rank {place.rank} of {len(place.ranks)} in the process group; "
            f"give `{function}` the group whose ranks share the data"
        )
    side = side_group(group)
    if side is None:
        raise LoaderError(
            f"`{function}` needs gloo and the store of the process group, and one of them is missing; {otherwise}"
        )
    return side


def constants_of(state: State) -> bytes:
    """The entries that all ranks have in common, as JSON."""
    return json.dumps({name: state[name] for name in _CONSTANTS}).encode()


def part_of(state: State) -> bytes:
    """The entries of one rank, as JSON: its step, data epoch, goal, position and ledger."""
    position, ledger = (json.loads(str(state[name])) for name in ("position", "ledger"))
    return json.dumps([state["step"], state["data_epoch"], state["goal"], position, ledger]).encode()


def joined(own: State, parts: Sequence[bytes], numbers_of: Callable[[SavedState], Numbers]) -> State:
    """One state of all ranks."""
    state = dict(own)
    entries = [json.loads(part) for part in parts]
    if not own["shards"]:
        one = merged(_saved(own, parts))
        state["step"], state["position"] = one.step, indexed_text(one.position)
        state["ledger"] = (one.numbers if one.counted is None else numbers_of(one)).text
    else:
        state["ledger"] = Numbers.sum([Numbers.of(json.dumps(entry.pop())) for entry in entries]).text
        state |= {"rank": ALL_RANKS, "step": min(entry[0] for entry in entries), "data_epoch": entries[0][1]}
        state |= {"goal": NO_GOAL, "position": json.dumps({"ranks": entries})}
    state["checksum"] = checksum(signature_checksum(state), state)
    return state


def _saved(own: State, parts: Sequence[bytes]) -> list[SavedState]:
    """The states of all ranks of an indexed pipe. Few of their places differ."""
    distinct: dict[bytes, SavedState] = {}
    for part in parts:
        if part not in distinct:
            step, data_pass, goal, position, ledger = json.loads(part)
            one = {**own, "step": step, "data_epoch": data_pass, "goal": goal, "position": json.dumps(position)}
            one["ledger"] = json.dumps(ledger)
            one["checksum"] = checksum(signature_checksum(one), one)
            distinct[part] = validated(one)
    return [distinct[part] for part in parts]


def _digest(content: bytes) -> list[int]:
    """A digest as whole numbers of 64 bits."""
    digest = hashlib.blake2b(content, digest_size=8 * _DIGEST_NUMBERS).digest()
    return [int.from_bytes(digest[at : at + 8], "little", signed=True) for at in range(0, len(digest), 8)]


def _other_constants(one: State, ranks: Sequence[int], other: State, other_ranks: Sequence[int]) -> StateError:
    """The error of ranks that do not run one job."""
    name = next(name for name in _CONSTANTS if one[name] != other[name])
    return _not_one_job(name, one[name], ranks, other[name], other_ranks)


def read_states(state: object) -> list[SavedState]:
    """The states that `load_state_dict` was given, checked: that of one rank, or those of all ranks in their order."""
    if isinstance(state, Sequence) and not isinstance(state, (str, bytes)):
        states = [_validated(place, one) for place, one in enumerate(state)]
        _check_one_job(states)
        return sorted(states, key=lambda one: one.rank)
    saved = validated(state)
    if saved.indexed or saved.rank != ALL_RANKS:
        return [saved]
    entries = saved.ranks or [saved] * saved.world_size  # without entries, nothing of the epoch is taken
    ranks = len(entries)
    return [replace(one, rank=rank, numbers=one.numbers.share(rank, ranks)) for rank, one in enumerate(entries)]


def _validated(place: int, state: object) -> SavedState:
    try:
        return validated(state)
    except StateError as error:
        raise StateError(f"state {place} of the list: {error}") from None


def _check_one_job(states: Sequence[SavedState]) -> None:
    """Checks that these are the states of all ranks of one job, in one epoch."""
    if not states:
        raise StateError("a list of states must have the state of each rank but is empty")
    first = states[0]
    for name in ("world_size", "shards", "seed", "pipe", "code", "epoch"):
        check_equal(states, name)
    ranks = [one.rank for one in states]
    if not first.indexed:
        if ALL_RANKS in ranks:
            raise StateError("a gathered state has the states of all ranks already; load it alone, not in a list")
        counts = Counter(ranks)
        if others := [rank for rank in range(first.world_size) if counts[rank] != 1]:
            raise StateError(
                f"the list must have one state of each of the {first.world_size} ranks, and has none or several of "
                f"{_ranks(others)}"
            )
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
    raise _not_one_job(name, value, ranks, other_value, other_ranks)


def _not_one_job(
    name: str, value: object, ranks: Sequence[int], other_value: object, other_ranks: Sequence[int]
) -> StateError:
    shown = "" if name in ("pipe", "code") else f": {value} and {other_value}"
    return StateError(
        f"the states of {_ranks(ranks)} and {_ranks(other_ranks)} are not of one job, because their `{name}` "
        f"differs{shown}"
    )


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def run_alike(states: list[SavedState], plan: Plan) -> list[SavedState]:
    """The states, as if the policies for rows that fail had been those of `plan`.

    They are no part of a pipe, but an indexed one runs by position only if none of its elements may be skipped. Places
    that only one kind of run has stay as they are.
    """
    first = states[0]
    if first.indexed == plan.indexed or not plan.has_positions:
        return states
    if first.indexed:
        one = merged(states)
        if one.position is None or one.position.taken.beyond or one.position.redivision is not None:
            return states
        at = START.advance(min(one.position.taken.total, position_count(plan.unsharded))).plain
        steps = one.step * one.world_size
        return [replace(one, rank=0, world_size=1, shards=1, step=steps, position=Position(cursors={0: at}))]
    position = first.position
    if first.shards != 1 or position is None or position.redivision is not None:
        return states
    taken = Cursor.of(position.cursors[0]).position if 0 in position.cursors else position_count(plan.unsharded)
    return [replace(first, rank=ALL_RANKS, shards=0, position=Position(Taken(taken)))]


def shards_of_job(states: Sequence[SavedState], plan: Plan) -> int:
    """The number of virtual shards that the loader of `plan` must have to go on from these states."""
    if (one := _serving(states, plan)) is not None:
        return resumed_shards(one, plan)
    shards = checked_shards(states[0], plan)
    return plan.shards if shards % plan.world_size else shards


def restore_job(states: Sequence[SavedState], schedule: Schedule) -> Progress:
    """The progress that the states of a job mean for the rank of a schedule."""
    plan = schedule.plan
    if states[0].indexed and plan.indexed:
        return restore(merged(states), plan)
    one = merged(states) if states[0].indexed else _serving(states, plan)
    progress = resumed_elsewhere(states, schedule) if one is None else restore(one, plan)
    return with_numbers(progress, _numbers_of_rank(states, plan), plan)


def _numbers_of_rank(states: Sequence[SavedState], plan: Plan) -> Numbers:
    """The numbers of the ledger that the rank of `plan` goes on with."""
    first = states[0]
    if not first.indexed and len(states) < first.world_size:
        return first.numbers  # nobody knows those of the other ranks
    if not first.indexed and not plan.indexed and first.world_size == plan.world_size:
        return states[plan.rank].numbers
    last = min(one.data_pass for one in states)
    several = [one.numbers if one.data_pass == last else one.numbers.in_pass_before() for one in states]
    total = first.numbers if first.indexed else Numbers.sum(several)
    return total if plan.indexed else total.share(plan.rank, plan.world_size)


def _serving(states: Sequence[SavedState], plan: Plan) -> SavedState | None:
    """The state that the rank of `plan` goes on from by itself; None if it needs those of all ranks."""
    first = states[0]
    if plan.indexed or first.indexed or len(states) < first.world_size or all(one.position is None for one in states):
        return first
    if first.world_size != plan.world_size:
        return None
    one = states[plan.rank]
    # A rank that has not begun is in the middle of the epoch nevertheless, so the shards stay as they are.
    return one if one.position is not None else replace(one, position=Position())


def ledger_of_states(state: object) -> Ledger:
    """The ledger of a state, or of those of all ranks."""
    states = read_states(state)
    if not states[0].indexed:
        return Numbers.sum([one.numbers for one in states]).ledger(len(states))
    one = merged(states)
    if one.counted is not None and one.numbers.accounts:
        raise StateError(
            "the ranks of these states have taken different numbers of elements, and only their pipe can tell the rows "
            "of these; give the state that `gather_state(loader)` returns"
        )
    return one.numbers.ledger(one.world_size)


def merged(states: Sequence[SavedState]) -> SavedState:
    """The states of all ranks of an indexed pipe as one; the ranks may have taken different numbers of elements."""
    first = states[0]
    world_size = first.world_size
    if all(one.position == first.position and one.step == first.step for one in states):
        return first
    places = [one.position or Position() for one in states]
    last = min(places, key=lambda place: place.taken.total)
    leads = [place.taken.total - last.taken.total for place in places]
    if max(leads) > MAX_STRAGGLING:
        raise StateError(f"one rank of this job is {max(leads) // world_size} elements behind another")
    for number, (place, lead) in enumerate(zip(places, leads, strict=True)):
        if (
            lead % world_size
            or last.taken.after(lead) != place.taken
            or _name(place.redivision) != _name(last.redivision)
        ):
            raise StateError(
                f"state {number} of the list comes from another resume than the state that is furthest behind, so they "
                "are not of one job; give states that were saved together"
            )
    # The rank that is furthest behind has the elements that were left; of these, each rank has taken its own.
    ranges = list(last.taken.beyond)
    for rank, lead in enumerate(leads):
        ranges += last.taken.rows_left(range(rank, lead, world_size))
    step = sum(one.step for one in states) // world_size
    position = Position(Taken.of(last.taken.first, ranges), redivision=last.redivision)
    return replace(first, step=step, position=position, numbers=states[places.index(last)].numbers, counted=last.taken)


# A streamed pipe on another number of ranks.
MAX_PASSES = 16
"""The most passes over the data by which ranks may be apart; a state keeps a redivision of each."""


def resumed_elsewhere(states: Sequence[SavedState], schedule: Schedule) -> Progress:
    """The progress of a rank that goes on from the states of another number of ranks.

    All ranks compute the same, so none has to ask another.
    """
    plan = schedule.plan
    passes = _passes(states)
    progress = Progress(states[0].epoch, sum(one.step for one in states) // plan.world_size, passes[0])
    progress.skipped = share_of_lost([one.skipped for one in states], plan.rank, plan.world_size)
    if len(passes) > 1:  # `steps` ends the epochs, so no lengths matter
        redivisions = [StreamedJob(_in_pass(states, number)).redivided(plan) for number in passes]
        progress.redivision, *later = [one.of_rank(plan.rank, plan.world_size) for one in redivisions]
        progress.later = tuple(later)
        return progress
    job = StreamedJob(states)
    plain = job.as_it_is(plan)
    if plain is not None:
        progress.cursors, progress.ended = dict(plain.cursors), dict(plain.ended)
    else:
        progress.redivision = job.redivided(plan)
    left = plan.lengths_left(progress.position(plan), progress.data_pass)
    progress.goal = schedule.goal(progress.step, left)
    own = plan.rank_shards
    progress.cursors = {shard: cursor for shard, cursor in progress.cursors.items() if shard in own}
    progress.ended = {shard: leftover for shard, leftover in progress.ended.items() if shard in own}
    if progress.redivision is not None:
        progress.redivision = progress.redivision.of_rank(plan.rank, plan.world_size)
    return progress


def _passes(states: Sequence[SavedState]) -> range:
    """The passes over the data in which a rank has taken something, from that of the slowest rank on."""
    last = max(one.data_pass + len(one.later) for one in states)
    passes = range(min(one.data_pass for one in states), last + 1)
    if len(passes) > MAX_PASSES:
        raise StateError(
            f"one rank of these states is in pass {passes[0]} over the data, and another in pass {passes[-1]}; a job "
            f"whose ranks are more than {MAX_PASSES} passes apart goes on only on {states[0].world_size} ranks; begin "
            "a new pass with `set_epoch`"
        )
    return passes


def _in_pass(states: Sequence[SavedState], number: int) -> list[SavedState]:
    """The states of all ranks in one pass, which some may not have begun and others may have finished."""
    positions = [_position_in_pass(one, number) for one in states]
    redivision = next((position.redivision for position in positions if position.redivision is not None), None)
    if redivision is not None:  # a rank that has finished the pass has nothing left of it
        positions = [p._replace(redivision=p.redivision or replace(redivision, rests={})) for p in positions]
    return [replace(one, data_pass=number, position=p) for one, p in zip(states, positions, strict=True)]


def _position_in_pass(one: SavedState, number: int) -> Position:
    ahead = number - one.data_pass
    if ahead < 0:
        return Position(ended=dict.fromkeys(range(one.rank, one.shards, one.world_size)))
    if ahead == 0:
        return one.position or Position()
    return Position(redivision=one.later[ahead - 1] if ahead <= len(one.later) else None)


class StreamedJob:
    """The places of all ranks of a job with a streamed pipe, or of some.

    Attributes:
        first: the number of shards of the first division of the pass.
        first_ranks: the number of ranks of that division.
        graph: what the pass is a pass over.
    """

    def __init__(self, states: Sequence[SavedState]) -> None:
        first = states[0]
        self._states = states
        self._shards = first.shards
        self._data_pass = first.data_pass
        self._positions = [one.position or Position() for one in states]
        redivision = self._positions[0].redivision
        for one, position in zip(states, self._positions, strict=True):
            if _name(position.redivision) != _name(redivision):
                raise StateError(
                    f"the states of ranks {first.rank} and {one.rank} come from different resumes, so they are not of "
                    "one job; give states that were saved together"
                )
        self.first = first.shards if redivision is None else redivision.first
        self.first_ranks = first.world_size if redivision is None else redivision.ranks
        self.graph = AS_IT_IS if redivision is None else redivision.graph
        self._base = 0 if redivision is None else redivision.base
        self._is_redivided = redivision is not None

    def as_it_is(self, plan: Plan) -> Position | None:
        """The position with all shards as they are, if each new rank can go on with some of them in turn."""
        cursors = {shard: cursor for position in self._positions for shard, cursor in position.cursors.items()}
        joined = Position(cursors=cursors, ended={n: at for one in self._positions for n, at in one.ended.items()})
        has_tails = any(shard >= self._shards for shard in (*joined.cursors, *joined.ended))
        keeps_rows = plan.world_size == len(self._states) or not plan.depends_on_ranks
        if self._is_redivided or has_tails or plan.shards != self._shards or not keeps_rows:
            return None
        for rank in range(plan.world_size):
            running = [shard for shard in range(rank, self._shards, plan.world_size) if shard not in joined.ended]
            if not in_turn([joined.cursor(shard).position for shard in running]):
                return None
        return joined

    def redivided(self, plan: Plan) -> Redivision:
        """The rests of all ranks."""
        left = [rest for of_rank in self.left(plan.in_pass(self.graph).waiting) for rest in of_rank.values()]
        rests = numbered(dealt(left, plan.world_size, partial(self._cut, plan.in_pass(self.graph))), plan.shards)
        return Redivision(self.first, self.first_ranks, self.next_base, self._digest(plan), rests, self.graph)

    def _cut(self, plan: Plan, rest: Rest) -> Callable[[RowShare], Rest]:
        """The function that makes a part of a rest: of the inputs of mixtures, if it can go down to them."""
        one = self._states[0]
        fingerprint = self.graph.fingerprint or (one.pipe, one.code)
        passing = Passing(one.seed, self._data_pass, self.first)
        edit = Edit(fingerprint, fingerprint, plan, passing, self.graph.names)
        try:
            if edit.at_mixtures():
                opened = edit.streamed(rest, rest.top.origin)
                return lambda share: opened.part(share, edit.edges)
        except EditError:  # it stands where nobody can say what its inputs have given
            pass
        return rest.part

    @property
    def next_base(self) -> int:
        """The keys of the draws of the rests that follow begin here."""
        return self._base + self._shards + self._states[0].world_size

    def left(self, waiting: Callable[[Rest, Json], Rest]) -> list[dict[int, Rest]]:
        """What is left of the shards of each rank, by number."""
        return [self._left(one, at, waiting) for one, at in zip(self._states, self._positions, strict=True)]

    def _left(self, one: SavedState, position: Position, waiting_of: Callable[[Rest, Json], Rest]) -> dict[int, Rest]:
        tail = self._shards + one.rank
        if position.redivision is None:
            shards = range(one.rank, self._shards, one.world_size)
            rests = {shard: Rest.of_shard(shard, position.cursors.get(shard)) for shard in shards}
        else:
            rests = {n: rest.left(position.cursors.get(n)) for n, rest in position.redivision.rests.items()}
        ended = position.over
        running = {n: rest for n, rest in rests.items() if n not in ended}
        # In the order in which a tail reads them.
        waiting = {n: waiting_of(rests[n], cursor) for n in sorted(rests) if (cursor := ended.get(n)) is not None}
        if tail in position.ended:
            return running
        if tail not in position.cursors:
            return running | waiting
        begun, cursor = Rest(-1, {ROOT: Start(self._base + tail)}, tuple(waiting.values())), position.cursors[tail]
        if not self._is_redivided:  # its cursor is that of the groups themselves
            cursor = [cursor, 0, 0]
        return running | {tail: begun.left(cursor)}

    def _digest(self, plan: Plan) -> str:
        """The digest of the states and the new shards: later states come from one resume if theirs is the same."""
        places: list[Json] = [plan.shards, plan.world_size]
        for one, position in zip(self._states, self._positions, strict=True):
            redivision: Json = None if position.redivision is None else position.redivision.plain
            cursors: Json = {str(shard): cursor for shard, cursor in position.cursors.items()}
            ended: Json = {str(shard): leftover for shard, leftover in position.ended.items()}
            places.append([one.rank, one.step, cursors, ended, redivision])
        return hashlib.blake2b(json.dumps(places, sort_keys=True).encode(), digest_size=8).hexdigest()


def _name(redivision: Redivision | None) -> tuple[int, int, str] | None:
    """The entries that the redivisions of all ranks of a job have in common."""
    return None if redivision is None else (redivision.first, redivision.base, redivision.digest)
