"""Units that are dealt in granules: all rows once, lengths that follow from sums, resumes, other numbers of ranks."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import PlanWarning

from ..loading.elastic import Job
from ..support.examples import examples
from .units import pipe_of

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")


def expected(rows: list[int]) -> Counter[str]:
    return Counter(json.dumps([number, place]) for number, count in enumerate(rows) for place in range(count))


def counted(elements: list[Any]) -> Counter[str]:
    return Counter(map(json.dumps, elements))


ROWS = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 200)), min_size=1, max_size=60)


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(ROWS, st.integers(2, 9), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.booleans())
def test_all_rows_come_once(rows: list[int], granule: int, ranks: int, shards: int, shuffled: bool, are_rows: bool):
    pipe = pipe_of(rows, granule, are_rows=are_rows, window=5 if shuffled else None)
    loaders = [
        fp.Loader(pipe, rank=rank, world_size=ranks, shards=shards * ranks, even=None, seed=7) for rank in range(ranks)
    ]
    for _ in range(2):
        lengths = [len(loader) for loader in loaders] if are_rows else None
        given_rows = [list(loader) for loader in loaders]
        assert counted(sum(given_rows, [])) == expected(rows)
        assert lengths is None or lengths == list(map(len, given_rows))


@settings(max_examples=examples(40), deadline=None)
@given(ROWS, st.integers(2, 9), st.integers(1, 3), st.booleans(), st.data())
def test_a_resume_goes_on(rows: list[int], granule: int, shards: int, shuffled: bool, data: st.DataObject):
    pipe = pipe_of(rows, granule, window=5 if shuffled else None)
    whole = list(fp.Loader(pipe, shards=shards, seed=3))
    loader = fp.Loader(pipe, shards=shards, seed=3)
    taken = data.draw(st.integers(0, max(0, len(whole) - 1)))
    assert list(islice(iter(loader), taken)) == whole[:taken]
    resumed = fp.Loader(pipe, shards=shards, seed=3)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    if taken:
        assert list(resumed) == whole[taken:]


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_another_number_of_ranks_goes_on_with_what_is_left(seed: int):
    chance = random.Random(seed)
    rows = [chance.choice([0, 1, 5, 9, 40]) for _ in range(chance.randint(1, 80))]
    pipe = pipe_of(rows, chance.randint(2, 9), are_rows=chance.random() < 0.5, window=chance.choice([None, 4]))
    ranks, taken = chance.randint(1, 3), list[Any]()
    job = Job(pipe, ranks, seed=seed)
    for _ in range(3):
        more, states = job.take([chance.choice([0, 1, 4, 25]) for _ in range(ranks)])
        taken += more
        if any(state["epoch"] for state in states):
            return
        ranks = chance.choice([n for n in range(1, 6) if n != ranks])
        job = Job(pipe, ranks, states, seed=seed)
    assert counted(taken + job.rest()) == expected(rows)


def test_in_one_shard_the_order_stays_that_of_the_source():
    rows = [3, 0, 7, 1] * 10
    assert list(fp.Loader(pipe_of(rows, 4, window=None))) == list(pipe_of(rows, 4, window=None))


def test_units_of_eight_granules_are_mixed():
    rows = [1] * 639 + [2]  # units of one weight go round
    pipe = pipe_of(rows, 16, window=2)
    order = [number for number, _ in fp.Loader(pipe, shards=1, seed=1)]
    granules = [number // 16 for number in order]
    firsts = [sorted(set(granules[at : at + 128])) for at in range(0, 640, 128)]
    assert all(len(group) in (8, 9, 10) for group in firsts)  # the window and the unit of two rows move the border
    assert len(set(granules[:16])) > 4
    again = [number for number, _ in fp.Loader(pipe, shards=1, seed=1)]
    other = [number for number, _ in fp.Loader(pipe, shards=1, seed=2)]
    assert again == order != other


def test_a_unit_larger_than_a_share_is_divided_and_named():
    rows = [1] * 30 + [10_000] + [1] * 33
    with pytest.warns(PlanWarning, match=r"units of `expand` are divided row by row .* with 99% of the work"):
        first = fp.Loader(pipe_of(rows, 16), rank=0, world_size=4, even=None)
    loaders = [first, *(fp.Loader(pipe_of(rows, 16), rank=rank, world_size=4, even=None) for rank in range(1, 4))]
    lengths = [len(loader) for loader in loaders]
    assert max(lengths) - min(lengths) < 200
    assert counted([row for loader in loaders for row in loader]) == expected(rows)


@settings(max_examples=examples(20), deadline=None)
@given(ROWS, st.integers(2, 9), st.integers(1, 3))
def test_the_progress_never_falls(rows: list[int], granule: int, shards: int):
    loader = fp.Loader(pipe_of(rows, granule), shards=shards, seed=7)
    seen = [0.0, *(loader.progress for _ in loader), loader.progress if sum(rows) else 1.0]
    assert all(isinstance(share, float) and 0 <= share <= 1 for share in seen)
    assert seen[:-1] == sorted(seen[:-1])
