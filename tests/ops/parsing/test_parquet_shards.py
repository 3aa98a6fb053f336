"""Ranks and shards divide Parquet files by row groups, and resume anywhere in them."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

import feedpipe as fp

from .parquet_files import column, counted, parsed


def test_one_file_serves_many_shards(tmp_path):
    files = counted(tmp_path, [120], rows=10)
    pipe = parsed(files)
    shards = [list(fp.Loader(pipe, rank=rank, world_size=4)) for rank in range(4)]
    assert [[row["id"] // 10 for row in shard[::10]] for shard in shards] == [[r, r + 4, r + 8] for r in range(4)]


def test_a_shuffle_permutes_row_groups_anew_in_each_epoch(tmp_path):
    loader = fp.Loader(parsed(counted(tmp_path, [128], rows=4)).shuffle(window=2), shards=1)
    epochs = [[row["id"] // 4 for row in loader][::4] for _ in range(2)]
    assert all(len({*epoch}) > 20 for epoch in epochs)
    assert epochs[0] != epochs[1] and epochs[0] != sorted(epochs[0])


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
def test_lengths_are_known(tmp_path):
    files = counted(tmp_path, [50, 33, 90], rows=7)
    pipe = parsed(files)
    assert len(pipe) == 173 and len(pipe.batch(10)) == 18
    with pytest.raises(TypeError, match="the length of this pipe is not known"):
        len(parsed(files, filter=column("id") > 5))
    for chained in (pipe.batch(4), pipe.shuffle(window=8).batch(4), pipe.shuffle(window=8)):
        loaders = [fp.Loader(chained, rank=rank, world_size=3, even=None, seed=2) for rank in range(3)]
        for _ in range(3):  # row groups differ in length, so ranks do, differently in each epoch
            lengths = [len(loader) for loader in loaders]
            assert [len(list(loader)) for loader in loaders] == lengths


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
def test_ranks_are_made_even(tmp_path):
    pipe = parsed(counted(tmp_path, [50, 33, 90], rows=7)).shuffle(window=8).batch(4)
    for even in ("drop", "pad"):
        loaders = [fp.Loader(pipe, rank=rank, world_size=3, even=even) for rank in range(3)]
        for _ in range(2):
            lengths = {len(loader) for loader in loaders}
            assert len(lengths) == 1
            assert {len(list(loader)) for loader in loaders} == lengths


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("world_size", [1, 3])
def test_resumes_at_sampled_positions(tmp_path, world_size):
    files = counted(tmp_path, [50, 0, 33, 90], rows=8)
    for pipe in (
        parsed(files).shuffle(window=20).batch(4),
        parsed(files, filter=pc.bit_wise_and(column("id"), 3) == 0).batch(4),
    ):
        for rank in range(world_size):
            loader = fp.Loader(pipe, rank=rank, world_size=world_size, even=None, seed=1)
            steps = [(list(batch), info.state_dict()) for batch, info in loader.with_info()]
            for place in range(0, len(steps), 3):
                again = fp.Loader(pipe, rank=rank, world_size=world_size, even=None, seed=1)
                again.load_state_dict(steps[place][1])
                expected = [batch for batch, _ in steps[place + 1 :]]
                if expected:
                    assert [list(batch) for batch in again] == expected


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
def test_files_in_another_order_each_epoch_resume_where_shards_divide_a_file(tmp_path):
    files = counted(tmp_path, [50, 33, 90], rows=7)
    pipe = fp.from_sequence(files).shuffle().open_files().parse_parquet()
    loaders = [fp.Loader(pipe, rank=rank, world_size=2, even=None, seed=3) for rank in range(2)]
    rows = [[row["id"] for row in loader] for loader in loaders]
    assert sorted(sum(rows, [])) == list(range(173))
    for rank in range(2):
        for place in (0, 1, 20, len(rows[rank]) - 1):
            before = fp.Loader(pipe, rank=rank, world_size=2, even=None, seed=3)
            run = iter(before)
            seen = [next(run)["id"] for _ in range(place)]
            after = fp.Loader(pipe, rank=rank, world_size=2, even=None, seed=3)
            after.load_state_dict(before.state_dict())
            assert seen + [row["id"] for row in after] == rows[rank]
