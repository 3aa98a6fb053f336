"""Ranks divide an epoch evenly, and a state serves another number of them."""

from __future__ import annotations

import json

import pytest

import feedpipe as fp
from feedpipe.errors import (
    PlanError,
    PlanWarning,
)

from .small_pipes import numbers, streamed


class TestRanks:
    def test_dropping_more_than_a_percent_warns(self):
        with pytest.warns(UserWarning, match="1 of 13 elements"):
            list(fp.Loader(numbers(13), rank=0, world_size=3))

    @pytest.mark.parametrize("pipe", [numbers(13), numbers(13).shuffle(window=2)], ids=["indexed", "streamed"])
    def test_pad_repeats_and_says_so(self, pipe):
        loaders = [fp.Loader(pipe, rank=r, world_size=3, even="pad") for r in range(3)]
        parts = [list(loader.with_info()) for loader in loaders]
        assert len({len(part) for part in parts}) == 1
        assert len({len(loader) for loader in loaders}) == 1
        real = [x for part in parts for x, info in part if info.valid]
        assert sorted(real) == list(range(13))
        padding = [(x, part[0][0]) for part in parts for x, info in part if not info.valid]
        assert padding and all(x == first for x, first in padding)
        for r, part in enumerate(parts):
            for k, (_, info) in enumerate(part[:-1]):
                resumed = fp.Loader(pipe, rank=r, world_size=3, even="pad")
                resumed.load_state_dict(json.loads(json.dumps(info.state_dict())))
                assert list(resumed) == [x for x, _ in part[k + 1 :]]

    def test_error_refuses(self):
        with pytest.raises(PlanError, match="between 4 and 5"):
            list(fp.Loader(numbers(13), rank=0, world_size=3, even="error"))
        assert list(fp.Loader(numbers(12), rank=0, world_size=3, even="error")) == [0, 3, 6, 9]

    def test_unknown_length_needs_steps_or_no_even(self):
        with pytest.raises(PlanError, match=r"steps=.*even=None"):
            list(fp.Loader(streamed(), rank=0, world_size=2))
        parts = [list(fp.Loader(streamed(), rank=r, world_size=2, even=None)) for r in range(2)]
        assert sorted(sum(parts, [])) == list(range(12))
        assert [len(list(fp.Loader(streamed(), rank=r, world_size=2, steps=9))) for r in range(2)] == [9, 9]

    def test_more_than_a_fifth_left_out_is_an_error(self):
        def loader(rows, even):
            pipe = fp.from_sequence(range(rows)).shard_by_rank().repeat(100)
            return fp.Loader(pipe, rank=0, world_size=2, even=even)

        words = (
            r"100 of 300 elements are left out .* because they have between 100 and 200: the data is cut too unevenly"
        )
        with pytest.raises(PlanError, match=words):
            next(iter(loader(3, "auto")))
        assert len(loader(3, "pad")) == 200
        with pytest.warns(PlanWarning, match="100 of 900 elements are left out"):
            assert len(list(loader(9, "drop"))) == 400

    def test_load_on_several_ranks_warns(self):
        with pytest.warns(UserWarning, match="`load` holds all"):
            list(fp.Loader(streamed().load(), rank=0, world_size=2))


def test_order_with_a_shuffle_does_not_depend_on_ranks():
    # Shards take turns, so rank r of 2 gives every second element of a single rank.
    pipe = numbers(160).filter(lambda x: True).shuffle(window=6)
    one = list(fp.Loader(pipe, shards=16))
    two = [list(fp.Loader(pipe, rank=r, world_size=2, shards=16, even=None)) for r in range(2)]
    assert one[::2] == two[0] and one[1::2] == two[1]
