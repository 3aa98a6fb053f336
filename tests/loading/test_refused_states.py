"""A loader refuses states of another pipe or seed and damaged states, and names what differs."""

from __future__ import annotations

import json

import pytest

import feedpipe as fp
from feedpipe.errors import (
    StateError,
    StateWarning,
)

from .small_pipes import numbers, saved, streamed


class TestState:
    def test_another_pipe_is_refused_and_named(self):
        state = saved(fp.Loader(numbers(12).shuffle().batch(4)))
        with pytest.raises(StateError, match=r"`batch\(4\)` is now `batch\(5\)`"):
            fp.Loader(numbers(12).shuffle().batch(5)).load_state_dict(state)
        with pytest.raises(StateError, match="operators"):
            fp.Loader(numbers(12).batch(4)).load_state_dict(state)
        with pytest.raises(StateError, match=r"12.*13"):
            fp.Loader(numbers(13).shuffle().batch(4)).load_state_dict(state)

    def test_not_strict_goes_on_and_lists_differences(self):
        loader = fp.Loader(numbers(12).batch(4))
        next(iter(loader))
        other = fp.Loader(numbers(13).batch(4), seed=3)
        with pytest.warns(StateWarning) as seen:
            other.load_state_dict(saved(loader), strict=False)
        assert len(seen) == 2
        assert list(other) == [[4, 5, 6, 7], [8, 9, 10, 11], [12]]

    def test_prefetch_may_come_and_go(self):
        loader = fp.Loader(streamed().prefetch(4).batch(5))
        whole = list(loader)
        loader = fp.Loader(streamed().prefetch(4).batch(5))
        next(iter(loader))
        resumed = fp.Loader(streamed().batch(5).prefetch(1))
        resumed.load_state_dict(saved(loader))
        assert list(resumed) == whole[1:]

    def test_changed_code_warns(self):
        def double(x):
            return x * 2

        state = saved(fp.Loader(numbers().map(double)))

        def double(x):
            return x * 3

        with pytest.warns(UserWarning, match="the code of `double` in `map.*double.` has changed since"):
            fp.Loader(numbers().map(double)).load_state_dict(state)

    def test_an_indexed_state_does_not_fit_a_streamed_pipe(self):
        loader = fp.Loader(numbers())
        next(iter(loader))
        with pytest.warns(StateWarning), pytest.raises(StateError, match="only one of"):
            fp.Loader(streamed()).load_state_dict(saved(loader), strict=False)

    def test_state_is_small_and_plain(self):
        loader = fp.Loader(streamed(1000).shuffle(window=100).batch(5))
        next(iter(loader))
        state = loader.state_dict()
        assert json.loads(json.dumps(state)) == state
        assert len(json.dumps(state)) < 4000
