"""`Resume`: what has changed between a state and the pipe that goes on from it; `edited`: the state in terms of that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..core.cursor import Json
from ..core.taken import Taken
from ..plan.edits import Edit, EditError, Passing
from ..plan.fingerprint import entries
from ..plan.plan import Plan
from ..plan.rests import Redivision, Rest
from .job_state import StreamedJob, merged, position_of
from .state import IndexedPosition, SavedState, Signature, StreamedPosition

Edits: TypeAlias = Literal["groups", "order", "drop"]
"""The changes of a pipe that a state is loaded in spite of; each takes in those before it."""
EDITS: tuple[Edits, ...] = ("groups", "order", "drop")


@dataclass(frozen=True)
class Resume:
    """What has changed between a state and the pipe that goes on from it, in the middle of a pass.

    Attributes:
        changes: a line for each operator that differs.
        effect: the rest of the pass has the same rows in the same order, in the same "groups" or others; or in another
            "order"; or without those of an input that is gone ("drop").
        taken: the number of rows of each part of the pipe that goes on which were taken before, by the call that makes
            them; None if nobody knows. Of a streamed pipe, those of the ranks whose states were loaded.
        added: the calls of inputs that are new.
        dropped: the calls of sources that are gone.
    """

    changes: tuple[str, ...]
    effect: Edits
    taken: dict[str, int | None]
    added: tuple[str, ...]
    dropped: tuple[str, ...]

    def __str__(self) -> str:
        parts = [", and ".join(self.changes)]
        for call, rows in self.taken.items():
            if rows is None:
                parts.append(f"`{call}` goes on with the rows that are left")
            elif len(self.taken) == 1:
                parts.append(f"{rows:,} rows were taken, the pass goes on at row {rows:,}")
            else:
                parts.append(f"`{call}` goes on at its row {rows:,}")
        return ": ".join([parts[0], "; ".join(parts[1:])])


def has_changed(saved: SavedState, signature: Signature) -> bool:
    """Whether a state is of another pipe and the same seed."""
    return saved.pipe != signature.entries["pipe"] and saved.seed == signature.entries["seed"]


def edited(
    states: Sequence[SavedState], plan: Plan, signature: Signature, accepted: Edits
) -> tuple[list[SavedState], Resume]:
    """States of another pipe as states of this one.

    Args:
        states: of one rank or of all ranks.
        plan: of the pipe that goes on.
        signature: its entries of states.
        accepted: the changes that may be.

    Returns:
        The states, and what has changed.

    Raises:
        EditError: the pass cannot go on after the change, or not without another `edits`.
    """
    first = states[0]
    pipe, code = str(signature.entries["pipe"]), str(signature.entries["code"])
    if first.indexed != plan.indexed:
        raise EditError("only one of both pipes is indexed")
    passing = Passing(first.seed, first.data_pass, first.shards)
    edit = Edit(entries(first.pipe), entries(pipe), plan.root, plan.runs_per_shard, passing)
    if EDITS.index(edit.effect) > EDITS.index(accepted):
        what = "would leave out the rest of an input" if edit.effect == "drop" else "changes the order of rows"
        raise EditError(f'that {what}; if this is meant, give `edits="{edit.effect}"`')
    rests: list[Rest] = []
    moved = list(states)
    if any(one.position is not None for one in states):
        moved, rests = _indexed(states, edit) if first.indexed else _streamed(states, edit, plan, pipe)
    taken = _taken(edit, rests, complete=first.indexed or len(rests) == _shards_of(states))
    resume = Resume(tuple(edit.changes()), edit.effect, taken, edit.calls(edit.added), edit.old_calls(edit.dropped))
    return [replace(one, pipe=pipe, code=code) for one in moved], resume


def _indexed(states: Sequence[SavedState], edit: Edit) -> tuple[list[SavedState], list[Rest]]:
    one = merged(states)
    position = one.position
    assert isinstance(position, IndexedPosition), "some of the pass is taken"
    before = position.redivision
    rest = Rest(0, {}) if before is None else before.rests[0]
    if edit.is_same:
        if before is not None:
            before = replace(before, rests={0: edit.renumbered(rest)})
        return [replace(one, position=position._replace(redivision=before))], [rest]
    base = 0 if before is None else before.base + 1
    rest = edit.indexed(rest, position.taken, base)
    digest = hashlib.blake2b(json.dumps(rest.plain).encode(), digest_size=8).hexdigest()
    return [replace(one, position=IndexedPosition(0, (), Redivision(0, base, digest, {0: rest})))], [rest]


def _streamed(
    states: Sequence[SavedState], edit: Edit, plan: Plan, pipe: str
) -> tuple[list[SavedState], list[Rest]]:
    positions = [position_of(one) for one in states]
    if len({one.data_pass for one in states}) > 1 or any(position.later for position in positions):
        raise EditError("the ranks are in different passes over the data")
    if edit.is_same:
        places = [_renumbered(position, edit) for position in positions]
        return [replace(one, position=at) for one, at in zip(states, places, strict=True)], []
    edit.check_tails(plan.tail_number)
    job, tail = StreamedJob(states), edit.tail
    base = job.next_base

    def waiting(rest: Rest, cursor: Json) -> Rest:
        return rest if rest.waits or tail is None else rest.waiting((tail, 0), cursor)

    all_rests: list[Rest] = []
    moved: list[SavedState] = []
    for one, of_rank in zip(states, job.left(waiting), strict=True):
        numbered = {n: rest for n, rest in of_rank.items() if not rest.tail_of}
        for rest in of_rank.values():
            for part in edit.at_tail(rest) if rest.tail_of else ():
                numbers = range(one.rank, one.shards * (len(of_rank) + 2), one.world_size)
                free = (n for n in numbers if n not in numbered and n // one.world_size != one.shards // one.world_size)
                numbered[next(free)] = part
        rests = {n: edit.streamed(rest, base + n) for n, rest in sorted(numbered.items())}
        all_rests += rests.values()
        digest = hashlib.blake2b(f"{_digest_before(position_of(one))} {one.pipe} {pipe}".encode(), digest_size=8)
        redivision = Redivision(job.first, base, digest.hexdigest(), rests)
        position = StreamedPosition({}, {}, redivision, position_of(one).padding)
        moved.append(replace(one, position=position, goal=None))
    return moved, all_rests


def _digest_before(position: StreamedPosition) -> str:
    return "" if position.redivision is None else position.redivision.digest


def _renumbered(position: StreamedPosition, edit: Edit) -> StreamedPosition:
    before = position.redivision
    if before is None:
        return position
    rests = {number: edit.renumbered(rest) for number, rest in before.rests.items()}
    return position._replace(redivision=replace(before, rests=rests))


def _shards_of(states: Sequence[SavedState]) -> int:
    return states[0].shards * len(states) // states[0].world_size


def _taken(edit: Edit, rests: Sequence[Rest], *, complete: bool) -> dict[str, int | None]:
    """The rows of each part in common that the rests say were taken."""
    rows: dict[str, int | None] = {}
    for edge in () if edit.is_same else edit.edges.values():
        starts = [rest.starts[edge] for rest in rests if edge in rest.starts]
        counts = [Taken.of_plain(s.cursor).count if s.origin < 0 else s.taken for s in starts]
        rows[edit.call_at(edge)] = sum(counts) if complete else None
    return rows
