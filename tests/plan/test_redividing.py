"""What the new shards get of a pass that is divided again in the middle: all that is left, and nothing needless."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp

from ..loading.elastic import Chain, Job, count
from ..loading.signing import signed
from ..soak import SOAK
from ..support.examples import examples
from ..support.plan import OpenRun, Redivision

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")


def redivisions(job: Job) -> list[Redivision]:
    """What the ranks of a job that has loaded states run, if that was divided again."""
    return [loader._progress.redivision for loader in job.loaders if loader._progress.redivision]


def check_parts(run: OpenRun, rounds: int) -> None:
    """Checks that a run that has not begun has something to read, and only in rounds that there are."""
    assert run.parts
    for part in run.parts.values():
        listed = dict(part.listed)
        assert part.later or any(listed.values())
        assert all(number < rounds - bool(part.later) for number in listed)


@settings(max_examples=examples(60 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_the_rounds_that_are_left_are_divided_once(seed: int) -> None:
    chance = random.Random(seed)
    rounds, rows = chance.randint(1, 4), fp.from_sequence(range(chance.choice([1, 5, 12, 30])))
    files = rows.flat_map(lambda file: ((file, row) for row in range(file % 4)))
    pipe: Chain = chance.choice([rows.shuffle(window=3), files.shuffle(window=3), files, rows.shard_by_rank()])
    pipe = pipe.repeat(rounds) if rounds > 1 or chance.random() < 0.5 else pipe
    ranks, taken = chance.randint(1, 3), list[Any]()
    job = Job(pipe, ranks, seed=seed)
    for _ in range(chance.randint(1, 4)):
        more, states = job.take([chance.choice([0, 1, 4, 11, 25]) for _ in range(ranks)])
        taken += more
        if any(state["epoch"] for state in states):
            return  # the only rank has come to the end
        ranks = chance.choice([n for n in range(1, 8) if n != ranks])
        job = Job(pipe, ranks, states, seed=seed)
        for redivision in redivisions(job):
            for run in redivision.all_runs():
                if not run.begun and run.leftover is None and run.parts is not None:
                    check_parts(run, rounds)
    assert count(taken + job.rest()) == count(list(pipe)), repr(pipe)


def test_rounds_that_nobody_has_begun_are_not_listed() -> None:
    pipe = fp.from_sequence(range(30)).shuffle(window=3).repeat(100)
    job, states = Job(pipe, 2, seed=1), list[Any]()
    for ranks in (3, 2, 4):
        _, states = job.take([5] * len(job.loaders))
        job = Job(pipe, ranks, states, seed=1)
    numbers = {
        number
        for redivision in redivisions(job)
        for run in redivision.all_runs()
        for part in (run.parts or {}).values()
        for number, _ in part.listed
    }
    assert numbers == {0}
    assert all(len(json.dumps(loader.state_dict())) < 10_000 for loader in job.loaders)
    assert all(len(loader) - loader.step == len(list(loader)) for loader in job.loaders)


def test_leftover_rows_are_divided_evenly() -> None:
    pipe = fp.from_sequence(range(234)).shuffle(window=3).batch(10)  # of 12 shards, six have two batches
    _, states = Job(pipe, 1, seed=1, shards=12).take([16])
    job = Job(pipe, 5, states, seed=1)
    by_shard = [
        sum(run.leftover is not None for run in runs)
        for redivision in redivisions(job)
        for runs in redivision.runs.values()
    ]
    assert sum(by_shard) > 3 and max(by_shard) == 1
    assert all(len(loader) - loader.step == len(list(loader)) for loader in job.loaders)


def test_the_digest_of_states_never_changes() -> None:
    """Ranks with several releases of feedpipe may load the states of one job."""
    pipe = fp.from_sequence(range(40)).shuffle(window=40)
    _, states = Job(pipe, 2, seed=1, shards=4).take([3, 5])
    for one in states[:2]:
        position = json.loads(one["position"])
        turned = {name: dict(reversed(value.items())) for name, value in reversed(position.items())}
        reordered = signed({**one, "position": json.dumps(turned)})
        assert reordered["position"] != one["position"]
        states.append(reordered)
    for job_states in (states[:2], states[2:]):  # in whichever order their entries come
        assert {redivision.digest for redivision in redivisions(Job(pipe, 3, job_states, seed=1))} == {
            "432275c209a469d8"
        }
