"""Ranks and shards divide Parquet files by row groups, and resume anywhere in them."""

from __future__ import annotations

import pytest

import feedpipe as fp

from .parquet_files import counted, parsed


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
