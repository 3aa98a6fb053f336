"""A job of very many ranks changes their number again and again: computed from places, without a row being read."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import cast

import numpy as np
import numpy.typing as npt

import feedpipe as fp
from feedpipe.extensions import Context, Json, Plan, Position

from ..plan.test_lengths import Counts, Expand
from ..soak import SOAK
from ..support.engine import resolve
from ..support.loading import SavedState, StreamedJob, StreamedPosition
from ..support.plan import Line, OpenRun, Redivision

RANKS, UNITS = (64, 6_250) if SOAK == 1 else (1024, 100_000)
SHARDS = 8 * RANKS
MAX_STATE_BYTES = 64 * 1024


def plan_of(ranks: int, shards: int | None = None) -> Plan:
    """The plan of units of 50,000 to 150,000 rows."""
    rows = np.random.default_rng(0).integers(50_000, 150_000, UNITS).tolist()
    pipe = fp.from_sequence(rows).then(Counts()).then(Expand()).shuffle(window=1000).batch(64)
    return Plan(resolve(pipe), seed=1, rank=0, world_size=ranks, workers=8, shards=shards)


def line_of(plan: Plan) -> Line:
    """The places of the first division."""
    sharding = plan.sharding_of(Redivision(SHARDS, 0, "", {}))
    sharding.subgraph(plan.main, 0)
    line = sharding.line(sharding.streams["0"], Context(seed=1))
    assert line is not None
    return line


def times_read(line: Line, runs: Iterable[OpenRun]) -> npt.NDArray[np.int64]:
    """How often each place of the line is read by some runs."""
    changes = np.zeros(line.size + 1, np.int64)
    for run in runs:
        for span in run.part("0", SHARDS).spans(0, line):
            assert span.stop is not None
            changes[span.start] += 1
            changes[span.stop] -= 1
    return np.cumsum(changes)[:-1]


def stopped(redivision: Redivision, line: Line, chance: random.Random) -> tuple[dict[int, Json], list[OpenRun]]:
    """A cursor of each shard somewhere in one of its runs, and the runs before."""
    cursors: dict[int, Json] = {}
    ended: list[OpenRun] = []
    for shard, runs in redivision.runs.items():
        number = chance.randrange(len(runs))
        ended += runs[:number]
        spans = runs[number].part("0", SHARDS).spans(0, line)
        places = sum(span.length or 0 for span in spans)
        mark = cast("tuple[int, int, int]", runs[number].marks.get("0", (0, 0, 0)))
        marks: Json = {"0": [0, 0, chance.randint(mark[2], places)]}
        cursors[shard] = [[number, [None, 0, 100], []], 0, 100, marks]
    return cursors, ended


def states_of(
    redivision: Redivision, cursors: dict[int, Json], ranks: int, shards: int, *, is_redivided: bool
) -> list[SavedState]:
    """The states of all ranks; each state is small."""
    states: list[SavedState] = []
    for rank in range(ranks):
        own = range(rank, shards, ranks)
        part = redivision.of_shards(own)
        position = StreamedPosition({n: cursors[n] for n in own if n in cursors}, {}, part if is_redivided else None)
        position.ended.update(dict.fromkeys(n for n in own if n not in cursors))
        plain = {"cursors": position.cursors, "ended": position.ended, "cut": part.plain if is_redivided else None}
        assert len(json.dumps(plain)) <= MAX_STATE_BYTES
        states.append(SavedState(1, 0, 100, 0, rank, ranks, shards, "", "", position, None))
    return states


def test_every_unit_is_read_once_on_many_ranks() -> None:
    chance = random.Random(0)
    ranks, shards, is_redivided = RANKS, SHARDS, False
    line = line_of(plan_of(ranks))
    first = Redivision(SHARDS, 0, "", {shard: (OpenRun(shard),) for shard in range(SHARDS)})
    redivision, ended = first, list[OpenRun]()
    assert (times_read(line, [run for runs in first.runs.values() for run in runs]) == 1).all()
    for later in (RANKS * 3 // 4, RANKS, RANKS * 5 // 7, RANKS - 1):
        cursors, more = stopped(redivision, line, chance)
        if not is_redivided:
            shards_at: dict[int, Json] = {n: [None, 0, 100, c[3]] for n, c in cursors.items() if isinstance(c, list)}
            cursors = shards_at
        ended += more
        states = states_of(redivision, cursors, ranks, shards, is_redivided=is_redivided)
        plan = plan_of(later, shards if shards % later == 0 else None)
        redivision = StreamedJob(states).redivided(plan)
        runs = [run for runs in redivision.runs.values() for run in runs]
        assert (times_read(line, [*runs, *ended]) == 1).all()
        left = plan.lengths_left(Position(redivision=redivision), 0)
        assert left is not None and min(left) > 0
        ranks, shards, is_redivided = later, plan.shards, True
