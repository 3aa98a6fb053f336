"""Which epoch and step the next `iter(loader)` begins with: after the end, `break`, `set_epoch`, `peek` or a state."""

from __future__ import annotations

from contextlib import suppress

import pytest

import feedpipe as fp
from feedpipe.errors import (
    LoaderError,
)

from .small_pipes import numbers, saved, streamed

PIPES = {
    "indexed": lambda: numbers().shuffle().batch(5),
    "streamed": lambda: streamed().shuffle(window=4).batch(5),
}


@pytest.fixture(params=PIPES, ids=str)
def make(request: pytest.FixtureRequest):
    return lambda **options: fp.Loader(PIPES[request.param](), **options)


class TestEpochs:
    @pytest.mark.parametrize("looks", [False, True])
    @pytest.mark.parametrize("options", [{}, {"steps": 2}, {"device": "cpu"}], ids=str)
    def test_in_a_loop_epoch_and_step_are_those_of_the_element_just_taken(self, make, options, looks):
        loader = make(**options)
        for epoch in range(3):
            for step, (_, info) in enumerate(loader.with_info(), 1):
                if looks:
                    with suppress(LoaderError):
                        loader.peek()
                assert (loader.epoch, loader.step) == (info.epoch, info.step) == (epoch, step)
                assert f"epoch {epoch}, step {step}" in repr(loader)
            assert (loader.epoch, loader.step) == (epoch + 1, 0)

    @pytest.mark.parametrize("options", [{}, {"shards": 3}, {"steps": 2}], ids=str)
    def test_an_info_stays_right_when_further_elements_are_taken(self, make, options):
        loader, other = make(**options), make(**options)
        for _ in range(2):
            infos, states = [], []
            for _, info in loader.with_info():
                infos.append((info, info.epoch, info.step, info.valid.tolist()))
                states.append(loader.state_dict())
            assert [info.state_dict() for info, *_ in infos] == states
            assert [(info, info.epoch, info.step, info.valid.tolist()) for info, *_ in infos] == infos
            assert [other.state_dict() for _ in other] == states, "a snapshot changes no state"

    def test_set_epoch_never_leaves_a_loaded_epoch_in_silence(self, make):
        loader, resumed = make(), make()
        epochs = [list(loader) for _ in range(3)]
        for taken in range(1, 3):
            other = make()
            for _ in zip(range(taken), other, strict=False):
                pass
            for look in (lambda: None, lambda: iter(resumed), resumed.peek):
                resumed.load_state_dict(saved(other))
                look()
                with pytest.raises(LoaderError, match=rf"`set_epoch\(2\)`.*rest of epoch 0.*after step {taken}"):
                    resumed.set_epoch(2)
                assert list(resumed) == epochs[0][taken:]
            resumed.load_state_dict(saved(other))
            next(iter(resumed))
            resumed.set_epoch(2)  # as after any `break`
            assert list(resumed) == epochs[2]

    def test_an_epoch_that_has_given_no_element_is_not_given_up(self, make):
        loader = make()
        whole, following = list(loader), list(loader)
        fresh, partly, resumed = make(), make(), make()
        next(iter(partly))
        resumed.load_state_dict(saved(partly))
        peeked = make()
        peeked.peek()
        for other, taken in ((fresh, 0), (resumed, 1), (peeked, 0)):
            older = iter(other)
            middle = other.with_info()
            other.peek()
            assert (other.epoch, other.step) == (0, taken)
            newer = iter(other)
            for replaced in (older, middle):
                with pytest.raises(LoaderError, match="a newer"):
                    next(replaced)
            assert list(newer) == whole[taken:]
            assert list(other) == following

    def test_an_epoch_that_fails_at_its_first_element_begins_again(self):
        fails: list[bool] = []

        def flaky(x: int) -> int:
            if fails:
                fails.clear()
                raise ValueError
            return x

        for pipe in (numbers().map(flaky), streamed().map(flaky)):
            fails.append(True)
            loader = fp.Loader(pipe)
            with pytest.raises(fp.RowError):
                next(iter(loader))
            assert list(loader) == list(range(12))

    def test_a_look_behind_the_last_element_shows_the_next_epoch(self, make):
        loader, resumed = make(), make()
        for _ in zip(range(3), loader, strict=False):
            pass
        resumed.load_state_dict(saved(loader))
        resumed.peek()
        assert (resumed.epoch, resumed.step) == (1, 0)

    def test_valid_is_the_mask_of_the_element_handed_out_last(self, make):
        loader = make()
        assert loader.valid is None
        loader.peek()
        assert loader.valid is None
        masks = [loader.valid.tolist() for _ in loader]
        assert masks == [info.valid.tolist() for _, info in make().with_info()]
        assert loader.valid is None
        padded = fp.Loader(numbers(5), rank=1, world_size=2, even="pad")
        assert [bool(padded.valid) for _ in padded] == [True, True, False]


class TestSteps:
    def test_the_next_epoch_goes_on_where_the_last_stopped(self):
        loader = fp.Loader(numbers(5), steps=3)
        assert [list(loader), list(loader), list(loader)] == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]
        assert len(loader) == 3
        assert loader.epoch == 3
