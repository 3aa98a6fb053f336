from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.testing import check_operator


def test_law():
    a, b = fp.from_sequence(range(9)), fp.from_sequence("abcdef")
    expected = list(zip(range(9), "abcdef"))  # noqa: B905
    assert check_operator(a.zip(b)) == expected
    assert check_operator(a.filter(lambda x: True).zip(b)) == expected
    assert check_operator(b.zip(a.flat_map(lambda x: [x]), a)) == [(y, x, x) for x, y in expected]
    assert check_operator(a.zip(fp.from_sequence([]))) == []


def test_ends_with_the_shortest():
    assert len(fp.from_sequence("abc").zip(fp.from_sequence("ab"))) == 2


def test_next_to_a_sharded_input_the_other_is_read_whole():
    pipe = fp.from_sequence(range(8)).shard_by_rank().zip(fp.from_sequence("abcd"))
    with pytest.warns(UserWarning, match=r"again .* `zip` needs all .*; put `shard_by_rank\(\)` after `zip`"):
        assert list(fp.Loader(pipe, rank=0, world_size=2, even=None)) == list(zip(range(4), "abcd", strict=True))
