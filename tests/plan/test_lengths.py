"""The lengths of shards and ranks: known before a run, and what a run gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import PlanError
from feedpipe.extensions import Plan

from ..support.engine import resolve
from ..support.examples import examples
from ..support.plan import lengths as lengths_module
from .units import Expand, Granules, pipe_of

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")


@pytest.fixture(scope="module")
def uneven(tmp_path_factory) -> Path:
    """A Parquet file with 24 row groups of 10 to 240 rows."""
    path = tmp_path_factory.mktemp("uneven") / "a.parquet"
    rows = np.random.default_rng(3).permutation(np.arange(10, 250, 10))
    with pq.ParquetWriter(path, pa.schema([("x", pa.int64())])) as writer:
        for count, start in zip(rows, np.cumsum(rows) - rows, strict=True):
            writer.write_table(pa.table({"x": np.arange(start, start + count)}))
    return path


CHAINS = {
    "window": lambda p: p.shuffle(window=60),
    "source order": lambda p: p,
    "batch": lambda p: p.batch(8),
    "batch of a window, the last left out": lambda p: p.shuffle(window=60).batch(7, drop_last=True).map(len),
    "repeat": lambda p: p.shuffle(window=60).repeat(2),
    "repeat and batch": lambda p: p.shuffle(window=60).repeat(3).batch(8),
    "repeat of repeat": lambda p: p.shuffle(window=60).repeat(2).repeat(2),
    "batch in repeat": lambda p: p.shuffle(window=60).batch(8).repeat(2),
    "take of each shard": lambda p: p.shard_by_rank().take(100).shuffle(window=60),
    "concat": lambda p: p.concat(p.shuffle(window=60), fp.from_sequence(range(77))).batch(5),
    "after the deal": lambda p: p.take(1000).map(str).batch(3),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_loader_gives_as_many_elements_as_its_length(uneven, chain, world_size):
    pipe = chain(fp.read_parquet(uneven))
    for even, epochs in (("drop", 1), (None, 2)):
        loaders = [fp.Loader(pipe, seed=3, rank=r, world_size=world_size, even=even) for r in range(world_size)]
        for epoch in range(epochs):
            expected = [len(loader) for loader in loaders]
            assert [sum(1 for _ in loader) for loader in loaders] == expected, (even, epoch)
            if even == "drop":
                assert len(set(expected)) == 1


@settings(max_examples=examples(30))
@given(st.integers(0, 19), st.integers(2, 3))
def test_no_seed_gives_a_rank_fewer_rounds_than_its_length(seed, world_size):
    pipe = pipe_of([*range(0, 60, 7)], 1, window=60).repeat(2)
    loaders = [fp.Loader(pipe, seed=seed, rank=r, world_size=world_size, even=None) for r in range(world_size)]
    lengths = [len(loader) for loader in loaders]
    assert [sum(1 for _ in loader) for loader in loaders] == lengths


def test_units_without_weights_leave_the_length_open():
    pipe = fp.from_sequence([(0, 1), (1, 2)]).then(Expand())
    assert pipe.length == 3
    assert Plan(resolve(pipe), seed=0, rank=0, world_size=1, shards=2).length(0) is None


def test_an_operator_that_reads_rows_for_its_length():
    pipe = fp.from_sequence([*enumerate(range(100))]).shard_by_rank().then(Granules()).then(Expand())
    plan = Plan(resolve(pipe), seed=0, rank=0, world_size=2, shards=2)
    lengths = [plan.length(rank) for rank in range(2)]
    loaders = [fp.Loader(pipe, rank=rank, world_size=2, even=None) for rank in range(2)]
    assert [len(list(loader)) for loader in loaders] == lengths


def test_many_rounds_of_many_units_are_refused(uneven, monkeypatch):
    monkeypatch.setattr(lengths_module, "MAX_UNITS_COUNTED", 100)
    pipe = fp.read_parquet(uneven).shuffle(window=60).repeat(5)
    with pytest.raises(PlanError, match=r"`repeat` divides 24 units again in each of 5 rounds.*`steps=`"):
        len(fp.Loader(pipe, rank=0, world_size=2))


def test_the_ranks_of_a_large_job_are_asked_in_one_pass():
    rows = np.random.default_rng(0).integers(1000, 200_000, 5000).tolist()
    pipe = pipe_of(rows, 1, window=1000).batch(64)
    asked = []
    plan = Plan(resolve(pipe), seed=0, rank=0, world_size=64, shards=None)
    build = plan.shard_stage
    plan.shard_stage = lambda shard: asked.append(shard) or build(shard)
    lengths = [plan.length(rank) for rank in range(64)]
    assert not asked, "a length binds no shard"
    assert max(lengths) - min(lengths) <= 0.02 * max(lengths)
    assert abs(sum(lengths) - sum(rows) / 64) <= 64 * 9
