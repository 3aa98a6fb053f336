"""`Resume`: what has changed between a state and the pipe that goes on from it; `edited`: the state of that pipe."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..core.cursor import Json
from ..plan.edits import Edit, EditError, Passing
from ..plan.fingerprint import Fingerprint, differences
from ..plan.growth import grown
from ..plan.plan import Plan, Position
from ..plan.rests import AS_IT_IS, GraphOfPass, Redivision, Rest
from .job_state import StreamedJob, merged
from .state import SavedState, Signature

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
        taken: of each input that goes on, the call of its source and the number of rows that were taken before; None if
            nobody knows. Of a streamed pipe, those of the ranks whose states were loaded.
        added: the calls of the sources of inputs that are new.
        grown: those of sources that have grown, each with the number of its new rows; of a listing these are files.
        dropped: those of inputs that are gone.
    """

    changes: tuple[str, ...]
    effect: Edits
    taken: tuple[tuple[str, int | None], ...]
    added: tuple[str, ...]
    grown: tuple[tuple[str, int], ...]
    dropped: tuple[str, ...]

    def __str__(self) -> str:
        parts: list[str] = []
        for call, rows in self.taken:
            if rows is None:
                parts.append(f"`{call}` goes on with the rows that are left")
            elif len(self.taken) == 1:
                parts.append(f"{rows:,} rows were taken, the pass goes on at row {rows:,}")
            else:
                parts.append(f"`{call}` goes on at its row {rows:,}")
        changes = ", and ".join(self.changes)
        return f"{changes}: {'; '.join(parts)}" if parts else changes


def has_changed(saved: SavedState, signature: Signature) -> bool:
    """Whether a state is of another pipe and the same seed."""
    is_of_seed = saved.seed == signature.entries["seed"]
    return is_of_seed and bool(differences(saved.pipe, str(signature.entries["pipe"])))


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
    before = None if first.position is None else first.position.redivision
    passed = AS_IT_IS if before is None else before.graph
    old = passed.fingerprint or (first.pipe, first.code)
    graph = AS_IT_IS
    if parts := grown(plan.root, old[0]):
        plan = plan.in_pass(GraphOfPass(parts=parts))
        fingerprint = Fingerprint(plan.root)
        graph = GraphOfPass(parts=parts, fingerprint=(fingerprint.pipe, fingerprint.code))
    passing = Passing(first.seed, first.data_pass, first.shards if before is None or first.indexed else before.first)
    edit = Edit(old, graph.fingerprint or (pipe, code), plan, passing, passed.names)
    if EDITS.index(edit.effect) > EDITS.index(accepted):
        what = "it would leave out the rest of an input" if edit.effect == "drop" else "it changes the order of rows"
        raise EditError(f'{what}; if this is meant, give `edits="{edit.effect}"`')
    rests: list[Rest] = []
    moved = list(states)
    is_complete = True
    if any(one.position is not None for one in states):
        if first.indexed:
            moved, rests = _indexed(states, edit, graph)
        else:
            moved, rests, is_complete = _streamed(states, edit, graph, pipe)
    taken: list[tuple[str, int | None]] = []
    for edge in edit.edges.values() if rests else ():
        rows = sum(rest.starts[edge].taken for rest in rests if edge in rest.starts)
        taken.append((edit.source_of(edge), rows if is_complete else None))
    resume = Resume(
        tuple(edit.changes()), edit.effect, tuple(taken), edit.added_sources, edit.grown, edit.dropped_sources
    )
    return [replace(one, pipe=pipe, code=code) for one in moved], resume


def _indexed(states: Sequence[SavedState], edit: Edit, graph: GraphOfPass) -> tuple[list[SavedState], list[Rest]]:
    one = merged(states)
    position = one.position
    assert position is not None, "some of the pass is taken"
    before = position.redivision
    if edit.is_same:
        return [replace(one, position=position._replace(redivision=_renumbered(before, edit, graph)))], []
    if one.counted is not None and one.numbers.accounts:
        raise EditError(
            "the ranks have taken different numbers of elements of named sources, and only the old pipe can count "
            "them; save `gather_state(loader)`, which has counted them"
        )
    rest = Rest(0, {}) if before is None else before.rests[0]
    base = 0 if before is None else before.base + 1
    rest = edit.indexed(rest, position.taken, base)
    digest = hashlib.blake2b(json.dumps(rest.plain).encode(), digest_size=8).hexdigest()
    graph = replace(graph, names=edit.names())
    redivision = Redivision(0, one.world_size, base, digest, {0: rest}, graph)
    return [replace(one, position=Position(redivision=redivision))], [rest]


def _streamed(
    states: Sequence[SavedState], edit: Edit, graph: GraphOfPass, pipe: str
) -> tuple[list[SavedState], list[Rest], bool]:
    """The states, what is left, and whether that is of all shards of their ranks."""
    if len({one.data_pass for one in states}) > 1 or any(one.later for one in states):
        raise EditError("the ranks are in different passes over the data")
    if edit.is_same:
        positions = [one.position or Position() for one in states]
        places = [at._replace(redivision=_renumbered(at.redivision, edit, graph)) for at in positions]
        return [replace(one, position=at) for one, at in zip(states, places, strict=True)], [], True
    edit.check_tails()
    job, tail = StreamedJob(states), edit.tail
    graph = replace(graph, names=edit.names())

    def waiting(rest: Rest, cursor: Json) -> Rest:
        return rest if rest.waits or tail is None else rest.waiting((tail, 0), cursor)

    all_rests: list[Rest] = []
    moved: list[SavedState] = []
    is_complete = True
    for one, of_rank in zip(states, job.left(waiting), strict=True):
        free = (n for n in range(one.rank, sys.maxsize, one.world_size) if n not in (*of_rank, one.shards + one.rank))
        parts = {n: rest for n, rest in of_rank.items() if not rest.tail_of}
        parts |= {next(free): part for rest in of_rank.values() if rest.tail_of for part in edit.at_tail(rest)}
        rests = {n: edit.streamed(rest, job.next_base + n) for n, rest in sorted(parts.items())}
        own = range(one.rank, job.first, one.world_size)
        is_complete &= len(rests) >= len(own)
        if edit.added:
            for _ in range(len(rests), len(own)):
                number = next(free)
                rests[number] = edit.nothing_left(one.rank, job.next_base + number)
            shards = [*own, *[None] * len(rests)]
            rests = {n: edit.with_added(rest, shard) for (n, rest), shard in zip(rests.items(), shards, strict=False)}
        all_rests += rests.values()
        before = None if one.position is None else one.position.redivision
        content = f"{before and before.digest} {one.pipe} {pipe}"
        digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        redivision = Redivision(job.first, job.first_ranks, job.next_base, digest, rests, graph)
        moved.append(replace(one, position=Position(redivision=redivision), goal=None))
    return moved, all_rests, is_complete


def _renumbered(redivision: Redivision | None, edit: Edit, graph: GraphOfPass) -> Redivision | None:
    """A redivision in terms of a pipe that differs only in the operators that dress rows."""
    if redivision is None:
        return None
    rests = {number: edit.renumbered(rest) for number, rest in redivision.rests.items()}
    return replace(redivision, rests=rests, graph=replace(graph, names=edit.names()))
