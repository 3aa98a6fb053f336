"""The end of an epoch whose number of ranks has changed: how many elements each rank has, and how ranks become even."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import PlanError

from ..soak import SOAK
from ..support.examples import examples
from .elastic import Chain, Job, Sources, count

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")


def chain_of_known_length(sources: Sources, chance: random.Random) -> Chain:
    def source() -> Chain:
        windows = fp.from_sequence(range(chance.choice([0, 1, 5, 17, 100, 333]))).map(str).shuffle(window=5)
        taken = windows.take(1000).map(lambda row: ("taken", row))
        return chance.choice([sources.row_groups(), windows, taken])

    pipe = source()
    if chance.random() < 0.3:
        pipe, other = pipe.map(lambda row: ("first", row)), source().map(lambda row: ("second", row))
        pipe = chance.choice([pipe.concat(other), pipe.mix(other, weights=[2, 1]), pipe.mix(other, random=True)])
    if chance.random() < 0.5:
        pipe = pipe.shuffle(window=chance.choice([2, 6, 20]))
    if chance.random() < 0.3:
        pipe = pipe.repeat(chance.choice([1, 2, 3]))
    if chance.random() < 0.6:
        pipe = pipe.batch(chance.choice([1, 2, 3, 7]))
        if chance.random() < 0.3:
            pipe = pipe.map(list).shuffle(window=4)
    return pipe


def cut_job(pipe: Chain, chance: random.Random, seed: int) -> tuple[list[Any], Any, int]:
    """What a job took before it was redivided once or several times, its last states, and the next number of ranks."""
    ranks = chance.randint(1, 6)
    job, taken, states = Job(pipe, ranks, seed=seed), list[Any](), None
    for _ in range(chance.randint(1, 3)):
        steps = chance.choice([0, 1, 3, 10])
        more, states = job.take([steps if chance.random() < 0.5 else chance.choice([0, steps]) for _ in range(ranks)])
        taken += more
        ranks = chance.choice([count for count in range(1, 8) if count != ranks])
        job = Job(pipe, ranks, states, seed=seed)
    return taken, states, ranks


@settings(max_examples=examples(10 * SOAK), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_lengths_are_known_after_a_cut(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    pipe = chain_of_known_length(Sources(tmp_path, chance), chance)
    taken, states, ranks = cut_job(pipe, chance, seed)
    if any(state["epoch"] for state in states):
        return  # the only rank has come to the end
    try:
        list(map(len, Job(pipe, ranks, seed=seed, even="drop").loaders))
    except PlanError:
        return  # a rank has no element at all
    parts: dict[str | None, list[list[Any]]] = {}
    for even in (None, "drop", "pad"):
        loaders = Job(pipe, ranks, states, seed=seed, even=even).loaders
        left = [len(loader) - loader.step if loader.epoch == 0 else 0 for loader in loaders]
        padded = [list(loader.with_info()) if loader.epoch == 0 else [] for loader in loaders]
        assert [len(part) for part in padded] == left, repr(pipe)
        parts[even] = [[element for element, info in part if info.valid is True or info.valid.all()] for part in padded]
        if even:
            assert len(set(left)) == 1
    assert count(taken + [element for part in parts[None] for element in part]) == count(list(pipe))
    assert parts["pad"] == parts[None]
    least = min(map(len, parts[None]))
    assert parts["drop"] == [part[:least] for part in parts[None]]


def test_padding_goes_on_where_it_was() -> None:
    pipe = fp.from_sequence(range(40)).shuffle(window=40)
    _, states = Job(pipe, 2, seed=1, shards=2).take([19, 19])  # two elements are left for three ranks
    job = Job(pipe, 3, states, seed=1, even="pad")
    pairs = [(row, info, json.loads(json.dumps(info.state_dict()))) for row, info in job.loaders[1].with_info()]
    own = list(fp.Loader(pipe, seed=1, rank=1, world_size=3, even=None))
    assert [(row, bool(info.valid)) for row, info, _ in pairs] == [(own[0], False)]
    for step, (_, _, state) in enumerate(pairs[:-1], 1):
        resumed = fp.Loader(pipe, seed=1, rank=1, world_size=3, even="pad")
        resumed.load_state_dict(state)
        assert [(row, bool(info.valid), info.state_dict()) for row, info in resumed.with_info()] == [
            (row, False, later) for row, _, later in pairs[step:]
        ]
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state


def test_padding_is_not_part_of_what_is_left() -> None:
    pipe = fp.from_sequence(range(40)).shuffle(window=40)
    taken, states = Job(pipe, 2, seed=1, shards=2).take([2, 2])
    job = Job(pipe, 3, states, seed=1, even="pad")
    for loader in job.loaders:
        pairs = list(islice(loader.with_info(), 7))
        taken += [row for row, info in pairs if info.valid]
    states = [loader.state_dict() for loader in job.loaders]
    assert count(taken + Job(pipe, 4, states, seed=1).rest()) == count(list(range(40)))


def test_groups_before_the_padding_are_not_handed_on() -> None:
    pipe = fp.from_sequence(range(63)).shuffle(window=63).batch(5)
    taken, states = Job(pipe, 2, seed=1, shards=4).take([3, 3])
    job = Job(pipe, 3, states, seed=1, even="pad")
    pairs = [list(islice(loader.with_info(), 3)) for loader in job.loaders]
    assert [bool(of_rank[-1][1].valid.all()) for of_rank in pairs] == [False, True, True]
    taken += [batch for of_rank in pairs for batch, info in of_rank if info.valid.all()]
    job = Job(pipe, 2, [of_rank[-1][1].state_dict() for of_rank in pairs], seed=1)
    redivisions = [loader._progress.redivision for loader in job.loaders]
    assert sum(bool(rest.tail_of) for one in redivisions if one for rest in one.rests.values()) == 1, "of one rank"
    assert count(taken + job.rest()) == count(list(pipe))


def numbers(rows: int = 600) -> Chain:
    return fp.from_sequence(range(rows)).shuffle(window=10)


def test_the_length_of_a_cut_epoch_counts_the_steps_before_it():
    pipe = numbers().batch(7)
    _, states = Job(pipe, 2, seed=1).take([9, 9])
    loader = Job(pipe, 3, states, seed=1, even="drop").loaders[1]
    assert loader.step == 6  # 18 elements of three ranks
    whole, left = len(loader), len(list(loader))
    assert whole == 6 + left and loader.epoch == 1
    assert len(loader) == len(fp.Loader(pipe, seed=1, rank=1, world_size=3)), "the next epoch"


def test_ranks_that_loaded_different_states_say_so():
    pipe = numbers()
    digests = []
    for steps in ([2, 2], [3, 1]):
        _, states = Job(pipe, 2, seed=1).take(steps)
        loader = Job(pipe, 3, states, seed=1).loaders[0]
        digests.append(loader._schedule.epoch_start(loader._progress).facts["the states from which it goes on"])
    assert digests[0] != digests[1]
