"""A streamed job goes on, on any number of ranks, from any places: every row once, whatever the chain."""

from __future__ import annotations

import json
import random
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import StateError

from ..plan.units import Expand, Granules
from ..soak import SOAK
from ..support.examples import examples
from ..support.loading import gathered
from .elastic import Chain, FailingSources, Job, Sources, count, random_chain

pytestmark = [
    pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning"),
    pytest.mark.filterwarnings("ignore::feedpipe.errors.StateWarning"),
]


def run(pipe: Chain, seed: int, chance: random.Random) -> tuple[list[Any], Job | None]:
    """The elements of a job that changes its shape a few times, and its last loaders; None if it has ended before."""
    ranks = chance.randint(1, 6)
    shards = ranks * chance.randint(1, 4) if chance.random() < 0.3 else None
    job = Job(pipe, ranks, seed=seed, shards=shards)
    taken: list[Any] = []
    for _ in range(chance.randint(1, 4)):
        steps = chance.choice([0, 1, 3, 10, 30, 100])
        in_step = chance.random() < 0.5
        more, states = job.take([steps if in_step else chance.choice([0, steps, 2 * steps]) for _ in range(ranks)])
        taken += more
        if any(state["epoch"] for state in states):
            return taken, None  # the only rank has come to the end
        before, ranks = ranks, chance.choice([ranks, chance.randint(1, 7), chance.randint(1, 7)])
        own = before == ranks and chance.random() < 0.5
        chance.shuffle(ranked := list(states))
        state = gathered(states) if chance.random() < 0.5 else ranked
        job = Job(pipe, ranks, states.__getitem__ if own else state, seed=seed)
        if chance.random() < 0.5:  # saved again before the first element
            _, states = job.take([0] * ranks)
            job = Job(pipe, ranks, states.__getitem__ if chance.random() < 0.7 else gathered(states), seed=seed)
    return taken + job.rest(), job


@pytest.mark.slow
@settings(max_examples=examples(40 * SOAK), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_every_row_comes_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    pipe = random_chain(Sources(tmp_path, chance), chance)
    elements, _ = run(pipe, seed, chance)
    assert count(elements) == count(list(pipe)), repr(pipe)


@settings(max_examples=examples(8 * SOAK), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_rows_that_fail_are_counted_and_recorded_once(seed: int, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))

    def chain(on_error: Any) -> tuple[Chain, random.Random]:
        chance = random.Random(seed)
        return random_chain(FailingSources(tmp_path, chance, on_error), chance), chance

    alone = fp.Loader(chain("skip")[0], seed=seed)
    whole, skipped = list(alone), alone.skipped
    pipe, chance = chain(fp.Quarantine(folder))
    elements, job = run(pipe, seed, chance)
    assert count(elements) == count(whole), repr(pipe)
    if job is not None and job.skipped is not None:
        assert job.skipped == skipped, repr(pipe)
        records = [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]
        # A row after a state is recorded again on another number of ranks.
        rows = {(record["name"], *record["rounds"], record["repr"]) for record in records}
        assert len(rows) == sum(skipped.values()), repr(pipe)


@pytest.mark.parametrize(("ranks", "later"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 1)])
def test_a_pass_goes_on_with_a_policy_that_is_new(ranks: int, later: int):
    rows = fp.from_sequence(range(90)).shuffle()
    taken, states = Job(rows.map(lambda row: row), ranks, seed=1).take([7] * ranks)
    more, states = Job(rows.map(lambda row: row, on_error="skip"), later, states[0], seed=1).take([4] * later)
    one = later == 1  # whose place among the rows is a number again
    rest = Job(rows.map(lambda row: row, on_error="raise" if one else "skip"), later, states, seed=1).rest()
    assert count(taken + more + rest) == count(list(rows))


@pytest.mark.parametrize("pipe", [fp.from_sequence(range(600)).shuffle(), fp.from_sequence(range(600)).shard_by_rank()])
def test_an_indexed_shard_that_is_cut_makes_each_row_once(pipe: Chain):
    made: list[int] = []

    def draw(row: int, rng: Any) -> tuple[int, float]:
        made.append(row)
        return row, rng.random()

    drawn = pipe.map(draw, rng=True, on_error="skip")
    taken, states = Job(drawn, 2, seed=1).take([7, 9])
    made.clear()
    rest = Job(drawn, 3, states, seed=1).rest()
    assert len(made) == len(rest) == 584
    assert sorted(taken + rest) == sorted(Job(drawn, 2, seed=1).rest())


def streamed(rows: int = 600) -> Chain:
    return fp.from_sequence(range(rows)).filter(lambda row: row % 3 != 1).shuffle(window=10)


@pytest.mark.parametrize(
    "pipe",
    [
        streamed(240).batch(7),
        fp.from_iterable(range(160)).map(abs).dispatch().shuffle(window=6),
        fp.from_sequence(range(40)).flat_map(lambda row: [(row, copy) for copy in range(4)]).prefetch(2).batch(3),
    ],
)
def test_workers_go_on_from_a_cut(pipe: Chain):
    taken, states = Job(pipe, 2, seed=1).take([3, 5])
    whole = list(Job(pipe, 3, states, seed=1, shards=12).loaders[1])
    for workers in (0, 2):
        job = Job(pipe, 3, states, seed=1, shards=12, workers=workers)
        more, later = job.take([1, 4, 2])
        # The order is a function of the states and the shards, not of workers.
        job = Job(pipe, 3, later.__getitem__, seed=1, workers=2 - workers)
        rest = [list(loader) for loader in job.loaders]
        job.close()
        assert more[1:5] + rest[1] == whole
        job = Job(pipe, 5, gathered(later), seed=1)
        assert count(taken + more + job.rest()) == count(list(pipe))


def test_a_state_stays_small_over_many_cuts():
    pipe = streamed(20_000).batch(4)
    taken: list[Any] = []
    job, ranks, sizes = Job(pipe, 2, seed=1), 2, []
    for turn in range(12):
        ranks = (3, 2, 5, 4)[turn % 4]
        more, states = job.take([turn % 3] * len(job.loaders))
        taken += more
        job = Job(pipe, ranks, states, seed=1)
        sizes += [len(loader.state_dict()["position"]) for loader in job.loaders]
    assert max(sizes) < 12_000
    assert count(taken + job.rest()) == count(list(pipe))


def test_a_rank_that_has_not_begun_keeps_the_shards_of_its_job():
    pipe = fp.from_sequence(range(600)).shuffle().filter(lambda row: row % 3 != 1)  # without a window: shards stay
    first, states = Job(pipe, 2, seed=1).take([0, 11])
    second, states = Job(pipe, 4, states, seed=1).take([2, 1, 0, 3])
    assert states[2]["position"] == "null"
    third = Job(pipe, 4, states.__getitem__, seed=1).rest()
    assert count([*first, *second, *third]) == count(list(pipe))


@pytest.mark.parametrize("rows", [streamed(20_000), fp.from_iterable(range(20_000))])
def test_no_rank_is_idle_after_a_cut(rows: Chain):
    _, states = Job(rows.batch(4), 2, seed=1).take([9, 9])
    lengths = [len(list(loader)) for loader in Job(rows.batch(4), 5, states, seed=1).loaders]
    assert max(lengths) < 1.2 * min(lengths)


def test_draws_stay_on_another_number_of_ranks():
    pipe = fp.from_sequence(range(300)).filter(lambda row: True).map(lambda row, rng: (row, rng.random()), rng=True)
    drawn = dict(pair for loader in Job(pipe, 2, seed=4).loaders for pair in loader)
    taken, states = Job(pipe, 2, seed=4).take([5, 5])
    assert dict(taken + Job(pipe, 3, states, seed=4).rest()) == drawn


def test_an_indexed_shard_says_what_it_has_opened():
    pipe = fp.from_sequence(range(300)).shard_by_rank()
    job = Job(pipe, 2, seed=1, shards=4)
    taken, states = job.take([1, 1])
    for loader, elements in [(loader, iter(loader)) for loader in Job(pipe, 2, states, seed=1).loaders]:
        taken += [next(elements) for _ in range(20) if loader.state_dict()]  # a state after each element
        states.append(loader.state_dict())
    assert count(taken + Job(pipe, 3, states[2:], seed=1).rest()) == count(list(pipe))


def test_a_skip_is_part_of_what_is_taken():
    pipe = fp.from_sequence(range(400)).shuffle(window=6)
    whole = Job(pipe, 2, seed=1, shards=4).rest()
    job = Job(pipe, 2, seed=1, shards=4)
    taken, _ = job.take([3, 3])
    for loader in job.loaders:
        loader.skip(5)
    states = [loader.state_dict() for loader in job.loaders]
    skipped = {*whole[3:8], *whole[203:208]}
    rest = Job(pipe, 3, states, seed=1).rest()
    assert count(taken + rest) == count([row for row in whole if row not in skipped])


@pytest.mark.parametrize(
    "pipe",
    [
        streamed().shard_by_rank().take(5),
        streamed().repeat(2).repeat(2),
        streamed().map(abs).repeat(2).concat(streamed()),
        fp.from_sequence([*enumerate(range(60))]).shard_by_rank().then(Granules()).then(Expand()),
    ],
)
def test_a_chain_that_counts_the_rows_of_each_shard(pipe: Chain):
    whole = count(Job(pipe, 2, seed=1, shards=16).rest())
    taken, states = Job(pipe, 2, seed=1, shards=16).take([2, 3])
    for ranks in (1, 3, 4, 7):
        assert count(taken + Job(pipe, ranks, states, seed=1).rest()) == whole


def test_a_chain_without_end():
    pipe = streamed(60).repeat()
    _, states = Job(pipe, 2, seed=1).take([3, 5])
    rows = {row for loader in Job(pipe, 3, states, seed=1).loaders for row in islice(loader, 200)}
    assert rows == {*streamed(60)}


class TestWhatIsRefused:
    def test_states_of_different_resumes(self):
        _, states = Job(streamed(), 2, seed=1).take([2, 2])
        _, others = Job(streamed(), 2, seed=1).take([3, 3])
        mixed = [Job(streamed(), 3, states if rank else others, seed=1).loaders[rank].state_dict() for rank in range(3)]
        with pytest.raises(StateError, match="states of ranks 0 and 1 come from different resumes"):
            Job(streamed(), 2, mixed, seed=1)

    def test_ranks_that_are_many_passes_apart(self):
        pipe = fp.from_sequence(range(4)).filter(lambda row: True)  # two rows for each rank
        _, states = Job(pipe, 2, seed=1, steps=100).take([1, 32])
        Job(pipe, 3, states, seed=1, steps=100)
        _, states = Job(pipe, 2, seed=1, steps=100).take([1, 33])
        with pytest.raises(StateError, match="rank .* in pass 0 .* in pass 16; .* only on 2 ranks; .* `set_epoch`"):
            Job(pipe, 3, states, seed=1, steps=100)


def test_ranks_begin_an_epoch_alike_although_some_are_through_a_cut_pass():
    pipe = fp.from_sequence(range(9)).filter(lambda row: True)
    _, states = Job(pipe, 2, seed=1, steps=100).take([5, 5])  # rank 0 has four rows in a pass, and rank 1 five
    loader = Job(pipe, 3, states, seed=1, steps=100).loaders[0]
    schedule, progress = loader._schedule, loader._progress
    assert progress.redivision and progress.later
    assert schedule.epoch_start(progress) == schedule.epoch_start(schedule.next_pass(schedule.next_pass(progress)))


@settings(max_examples=examples(25 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_every_row_comes_once_in_each_pass(seed: int) -> None:
    chance = random.Random(seed)
    rows = chance.choice([30, 90, 150])
    pipe = fp.from_sequence(range(rows)).filter(lambda row: row % 5 != 1)
    pipe = chance.choice(
        [pipe, pipe.shuffle(window=6), pipe.dispatch(), *([pipe.batch(3), pipe.repeat(2)] * (rows > 30))]
    )
    ranks, state, taken = chance.randint(1, 4), None, list[tuple[int, Any]]()
    for _ in range(5):
        job = Job(pipe, ranks, state, seed=seed, steps=1000)
        states = [loader.state_dict() for loader in job.loaders]
        for rank, loader in enumerate(job.loaders):
            for _ in range(chance.choice([0, 1, 2])):
                for element, info in islice(loader.with_info(), chance.choice([0, 3, 8])):
                    states[rank] = info.state_dict()
                    taken.append((states[rank]["data_epoch"], element))
                loader.load_state_dict(states[rank])
        keeps = chance.random() < 0.2
        state = states.__getitem__ if keeps else gathered(states) if chance.random() < 0.5 else states
        ranks = ranks if keeps else chance.randint(1, 4)
    last = max((number for number, _ in taken), default=0)
    for loader in Job(pipe, ranks, state, seed=seed, steps=1000).loaders:
        for element, info in loader.with_info():
            if info.state_dict()["data_epoch"] > last:
                break
            taken.append((info.state_dict()["data_epoch"], element))
    for data_pass in range(last + 1):
        assert count([element for number, element in taken if number == data_pass]) == count(list(pipe)), repr(pipe)
