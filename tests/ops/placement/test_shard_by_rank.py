from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import PlanError
from feedpipe.testing import check_operator


def test_law():
    assert check_operator(fp.from_sequence(range(9)).shard_by_rank()) == list(range(9))
    assert check_operator(fp.from_sequence(range(9)).filter(lambda x: True).shard_by_rank().batch(2))[-1] == [8]


def test_operators_after_it_see_one_shard():
    pipe = fp.from_sequence(range(40)).shard_by_rank().take(3)
    parts = [list(fp.Loader(pipe, rank=r, world_size=2, even=None)) for r in range(2)]
    assert parts == [[0, 1, 2], [16, 17, 18]]
    assert list(pipe) == [0, 1, 2]


def test_twice_on_a_path():
    with pytest.raises(PlanError, match="twice"):
        fp.from_sequence(range(3)).shard_by_rank().map(str).shard_by_rank()
