"""`Loader`: a test for each rule of epochs, states and ranks."""

from __future__ import annotations

import json
import pickle
import signal
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.core.cursor import Cursor
from feedpipe.core.operator import Operator, Order
from feedpipe.errors import (
    ArgumentError,
    ArgumentTypeError,
    LoaderError,
    PlanError,
    PlanWarning,
    StateError,
    StateWarning,
    UnknownLengthError,
)

from .loading.signing import signed


def numbers(count: int = 12) -> fp.Pipe[int]:
    return fp.from_sequence(range(count))


def streamed(count: int = 12) -> fp.Pipe[int]:
    return numbers(count).filter(lambda x: True)


def saved(loader: fp.Loader[object]) -> dict[str, object]:
    return json.loads(json.dumps(loader.state_dict()))


PIPES = {
    "indexed": lambda: numbers().shuffle().batch(5),
    "streamed": lambda: streamed().shuffle(window=4).batch(5),
}


@pytest.fixture(params=PIPES, ids=str)
def make(request: pytest.FixtureRequest):
    return lambda **options: fp.Loader(PIPES[request.param](), **options)


class TestEpochs:
    def test_each_iter_begins_the_next_epoch(self, make):
        loader = make()
        first, second = list(loader), list(loader)
        assert first != second
        assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(12))
        assert loader.epoch == 2
        assert [list(make(seed=0)), first] == [first, first]

    def test_break_abandons_the_rest(self, make):
        loader = make()
        for _ in loader:
            break
        assert (loader.epoch, loader.step) == (0, 1)
        again = list(loader)
        other = make()
        list(other)
        assert again == list(other)

    def test_a_second_iter_ends_the_first(self, make):
        loader = make()
        first = iter(loader)
        next(first)
        iter(loader)
        with pytest.raises(LoaderError, match="newer"):
            next(first)

    def test_a_loaded_state_continues_its_epoch(self, make):
        loader = make()
        whole = list(loader)
        later = list(loader)
        other = make()
        taken = next(iter(other))
        resumed = make()
        resumed.load_state_dict(saved(other))
        assert (resumed.epoch, resumed.step) == (0, 1)
        assert [taken, *resumed] == whole
        assert list(resumed) == later

    def test_set_epoch_applies_to_the_next_iter(self, make):
        loader, other = make(), make()
        epochs = [list(loader) for _ in range(3)]
        other.set_epoch(2)
        assert other.epoch == 0
        assert list(other) == epochs[2]
        assert list(other) == list(loader)

    def test_set_epoch_of_the_loaded_epoch_changes_nothing(self, make):
        loader, other = make(), make()
        whole = list(loader)
        taken = next(iter(other))
        resumed = make()
        resumed.load_state_dict(saved(other))
        resumed.set_epoch(0)
        assert [taken, *resumed] == whole

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

    def test_set_epoch_applies_to_a_state_after_the_last_element(self, make):
        loader, resumed = make(), make()
        epochs = [list(loader) for _ in range(3)]
        other = make()
        for _ in zip(range(3), other, strict=False):  # the loop does not see the end
            pass
        resumed.load_state_dict(saved(other))
        resumed.set_epoch(2)
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

    def test_an_epoch_without_elements_is_over(self):
        loader = fp.Loader(streamed(0))
        assert [list(loader) for _ in range(3)] == [[], [], []]
        assert loader.epoch == 3

    def test_peek_shows_what_the_next_iter_gives(self, make):
        loader = make()
        epochs = [list(loader) for _ in range(3)]
        other = make()
        other.set_epoch(2)
        assert other.peek() == epochs[2][0]
        assert list(other) == epochs[2]
        other.peek()
        other.set_epoch(1)
        assert list(other) == epochs[1]

    @pytest.mark.parametrize("seen", [True, False])
    def test_a_state_after_the_last_element_means_the_next_epoch(self, make, seen):
        loader = make()
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        if seen:
            assert next(iterator, None) is None
        resumed = make()
        resumed.load_state_dict(saved(loader))
        # Only a look can show that nothing follows, if the length is not known and the loop has not seen the end.
        look_needed = not seen and not loader.dataset.indexed
        assert (resumed.epoch, resumed.step) == ((0, 3) if look_needed else (1, 0))
        resumed.peek()
        assert (resumed.epoch, resumed.step) == (1, 0)
        reference = make()
        list(reference)
        assert list(resumed) == list(reference)

    def test_a_state_before_the_first_element(self, make):
        resumed = make()
        resumed.load_state_dict(saved(make()))
        assert list(resumed) == list(make())

    def test_loading_and_saving_is_the_identity(self, make):
        loader = make()
        next(iter(loader))
        resumed = make()
        resumed.load_state_dict(saved(loader))
        assert saved(resumed) == saved(loader)

    def test_peek_moves_nothing(self, make):
        loader = make()
        first = loader.peek()
        before = saved(loader)
        assert loader.peek() == first
        assert (loader.epoch, loader.step) == (0, 0)
        iterator = iter(loader)
        assert next(iterator) == first
        resumed = make()
        resumed.load_state_dict(before)
        assert list(resumed) == list(make())
        assert loader.peek() == next(iterator)
        assert list(loader) != []

    def test_closing(self, make):
        loader = make()
        iterator = iter(loader)
        next(iterator)
        state = saved(loader)
        loader.close()
        loader.close()
        assert saved(loader) == state
        with pytest.raises(LoaderError, match="closed"):
            next(iterator)
        with pytest.raises(LoaderError, match="closed"):
            iter(loader)
        with make() as inside:
            list(inside)
        with pytest.raises(LoaderError, match="closed"):
            inside.peek()

    def test_properties_of_a_loaded_loader_run_nothing(self):
        runs = []

        def keep(x: int) -> bool:
            runs.append(x)
            return True

        def loader() -> fp.Loader[list[int]]:
            return fp.Loader(numbers().filter(keep).batch(4))

        other = loader()
        whole = [next(iterator := iter(other))]
        state = saved(other)
        whole += iterator
        runs.clear()
        resumed = loader()
        for _ in range(2):
            resumed.load_state_dict(state)
            assert (resumed.epoch, resumed.step, saved(resumed)) == (0, 1, state)
            assert resumed.valid is None and "step 1" in repr(resumed)
        assert runs == []
        assert list(resumed) == whole[1:]

    def test_properties_of_a_loaded_loader_open_no_session(self):
        class Counting(fp.InProcess):
            def start(self):
                executor = super().start()
                opened = executor.open
                executor.open = lambda *arguments: sessions.append(1) or opened(*arguments)
                return executor

        sessions: list[int] = []
        with fp.Loader(streamed(), Counting()) as loader:
            next(iter(loader))
            state = saved(loader)
            loader.load_state_dict(state)
            assert (loader.epoch, loader.step, saved(loader)) == (0, 1, state)
            assert sessions == [1]
            assert next(iter(loader)) == 1
            assert sessions == [1, 1]

    def test_the_end_of_an_epoch_of_other_ranks_is_known_without_a_look(self):
        loader = fp.Loader(numbers())
        for _ in zip(range(11), loader, strict=False):
            pass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = fp.Loader(numbers(), rank=0, world_size=4)
            other.load_state_dict(saved(loader))
        assert (other.epoch, other.step) == (1, 0)

    def test_dataset(self):
        pipe = numbers()
        assert fp.Loader(pipe).dataset is pipe

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

    def test_repr(self):
        loader = fp.Loader(numbers().batch(4), fp.MultiProcess(4), rank=1, world_size=3)
        assert repr(loader) == (
            "Loader(fp.from_sequence(range(0, 12)).batch(4), MultiProcess(4), rank 1 of 3, epoch 0, step 0)"
        )
        loader.close()
        assert repr(loader).endswith("epoch 0, step 0, closed)")
        loader = fp.Loader(numbers().batch(4))
        for _ in loader:
            break
        assert repr(loader) == ("Loader(fp.from_sequence(range(0, 12)).batch(4), InProcess(), epoch 0, step 1 of 3)")
        loader = fp.Loader(streamed(), fp.InProcess(debug=True), steps=7)
        assert repr(loader).endswith("InProcess(debug=True), epoch 0, step 0 of 7)")

    def test_repr_of_a_long_chain_is_one_line_and_reads_nothing(self):
        pipe = fp.list_files(["missing"] * 9).open_files().parse_lines()
        for _ in range(50):
            pipe = pipe.map(lambda line: line)
        loader = fp.Loader(pipe.concat(pipe).batch(4))
        assert repr(loader) == "Loader(fp.list_files(<list of 9>) ... .batch(4), InProcess(), epoch 0, step 0)"

    def test_info_belongs_to_its_element(self, make):
        loader = make()
        whole = [(batch, info) for batch, info in loader.with_info()]
        assert [info.step for _, info in whole] == [1, 2, 3]
        assert all(info.epoch == 0 and info.valid.all() for _, info in whole)
        assert [len(info.valid) for _, info in whole] == [5, 5, 2]
        resumed = make()
        resumed.load_state_dict(json.loads(json.dumps(whole[0][1].state_dict())))
        assert list(resumed) == [batch for batch, _ in whole[1:]]

    def test_debug_gives_the_same(self):
        for pipe in (numbers().shuffle().batch(5), streamed().shuffle(window=4).prefetch(2).batch(5)):
            assert list(fp.Loader(pipe, fp.InProcess(debug=True))) == list(fp.Loader(pipe))


class TestSteps:
    def test_the_next_epoch_goes_on_where_the_last_stopped(self):
        loader = fp.Loader(numbers(5), steps=3)
        assert [list(loader), list(loader), list(loader)] == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]
        assert len(loader) == 3
        assert loader.epoch == 3

    @pytest.mark.parametrize("pipe", [numbers(5).shuffle(), streamed(5).shuffle(window=3)], ids=["indexed", "streamed"])
    def test_resume_anywhere(self, pipe):
        loader = fp.Loader(pipe, steps=4)
        epochs = [list(loader) for _ in range(4)]
        flat = sum(epochs, [])
        for taken in range(1, 12):
            other = fp.Loader(pipe, steps=4)
            iterator = iter(other)
            for k in range(taken):
                if k and k % 4 == 0:
                    iterator = iter(other)
                assert next(iterator) == flat[k]
            resumed = fp.Loader(pipe, steps=4)
            resumed.load_state_dict(saved(other))
            assert (resumed.epoch, resumed.step) == divmod(taken, 4)
            assert list(resumed) == flat[taken : taken // 4 * 4 + 4]
            assert list(resumed) == epochs[taken // 4 + 1]

    def test_an_empty_pipe_is_an_error(self):
        with pytest.raises(PlanError, match="no elements"):
            list(fp.Loader(streamed(0), steps=3))


class TestRanks:
    @pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
    @pytest.mark.parametrize("count", [12, 13, 14])
    def test_drop_makes_ranks_even(self, count):
        parts = [list(fp.Loader(numbers(count), rank=r, world_size=3)) for r in range(3)]
        assert {len(part) for part in parts} == {count // 3}
        assert [x for step in zip(*parts, strict=True) for x in step] == list(range(count // 3 * 3))

    def test_a_rank_without_any_element_is_an_error(self):
        with pytest.raises(PlanError, match="no element"):
            list(fp.Loader(numbers(1), rank=0, world_size=3))

    def test_dropping_more_than_a_percent_warns(self):
        with pytest.warns(UserWarning, match="1 of 13 elements"):
            list(fp.Loader(numbers(13), rank=0, world_size=3))

    @pytest.mark.parametrize("pipe", [numbers(13), streamed_known := numbers(13).shuffle(window=2)], ids=["i", "s"])
    def test_pad_repeats_and_says_so(self, pipe):
        loaders = [fp.Loader(pipe, rank=r, world_size=3, even="pad", shards=None) for r in range(3)]
        parts = [list(loader.with_info()) for loader in loaders]
        assert len({len(part) for part in parts}) == 1
        assert len({len(loader) for loader in loaders}) == 1
        real = [x for part in parts for x, info in part if info.valid]
        assert sorted(real) == list(range(13))
        padding = [(x, part[0][0]) for part in parts for x, info in part[:-1] + part[-1:] if not info.valid]
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

    @pytest.mark.parametrize("after", [0, 1, 2, 3])
    @pytest.mark.parametrize("ranks", [1, 2, 3, 5])
    def test_an_indexed_pipe_resumes_on_other_ranks(self, after, ranks):
        pipe = numbers(48).shuffle().batch(2)
        order = list(pipe_epoch(pipe))
        before = [fp.Loader(pipe, rank=r, world_size=4) for r in range(4)]
        taken = []
        states = []
        for loader in before:
            iterator = iter(loader)
            taken.append([next(iterator) for _ in range(after)])
            states.append(saved(loader))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rest = []
            for r in range(ranks):
                loader = fp.Loader(pipe, rank=r, world_size=ranks)
                loader.load_state_dict(states[0])
                rest.append(list(loader))
        assert [b for step in zip(*taken, strict=True) for b in step] == order[: 4 * after]
        done = [b for step in zip(*rest, strict=True) for b in step]
        left = order[4 * after :]
        assert done == left[: len(left) // ranks * ranks]

    def test_a_streamed_pipe_resumes_on_the_same_ranks_only(self):
        pipe = streamed().shuffle(window=4)
        loader = fp.Loader(pipe, rank=0, world_size=2, even=None)
        next(iter(loader))
        with pytest.raises(StateError, match="rank 0 of 2"):
            fp.Loader(pipe).load_state_dict(saved(loader))
        list(loader)
        other = fp.Loader(pipe)
        other.load_state_dict(saved(loader))
        assert other.epoch == 2

    def test_rank_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert list(fp.Loader(numbers(4))) == [1, 3]
        monkeypatch.delenv("WORLD_SIZE")
        with pytest.raises(ArgumentError, match="WORLD_SIZE"):
            fp.Loader(numbers(4))

    def test_drop_last_is_applied_once_for_a_rank(self):
        # 100 rows in 8 shards: each leaves over some rows, which together make whole batches.
        pipe = streamed(100).shuffle(window=2).batch(8, drop_last=True)
        batches = list(fp.Loader(pipe))
        assert [len(batch) for batch in batches] == [8] * 12


def pipe_epoch(pipe):
    return list(fp.Loader(pipe))


class TestState:
    def test_another_pipe_is_refused_and_named(self):
        state = saved(fp.Loader(numbers(12).shuffle().batch(4)))
        with pytest.raises(StateError, match=r"`batch\(4\)` is now `batch\(5\)`"):
            fp.Loader(numbers(12).shuffle().batch(5)).load_state_dict(state)
        with pytest.raises(StateError, match="operators"):
            fp.Loader(numbers(12).batch(4)).load_state_dict(state)
        with pytest.raises(StateError, match=r"12.*13"):
            fp.Loader(numbers(13).shuffle().batch(4)).load_state_dict(state)

    def test_another_seed_is_refused(self):
        with pytest.raises(StateError, match="`seed` was 0 and is now 1"):
            fp.Loader(numbers(), seed=1).load_state_dict(saved(fp.Loader(numbers())))

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

    @pytest.mark.parametrize(
        "change",
        [
            lambda s: {},
            lambda s: {**s, "feedpipe": 99},
            lambda s: {**s, "epoch": -1},
            lambda s: {**s, "step": "x"},
            lambda s: {k: v for k, v in s.items() if k != "pipe"},
            lambda s: signed({**s, "position": '{"cursors": {"a": [null, 0, 0]}, "ended": {}}'}),
            lambda s: signed({**s, "position": '{"cursors": {"99": [null, 0, 0]}, "ended": {}}'}),
            lambda s: signed({**s, "position": "{}"}),
            lambda s: [1, 2],
            lambda s: None,
            lambda s: "garbage",
        ],
    )
    def test_garbage_is_refused(self, change):
        loader = fp.Loader(streamed().batch(5))
        next(iter(loader))
        with pytest.raises(StateError):
            fp.Loader(streamed().batch(5)).load_state_dict(change(saved(loader)))

    @pytest.mark.parametrize("consumed", ["x", -4, 10**6, None, True])
    def test_a_position_outside_an_indexed_pipe_is_refused(self, consumed):
        loader = fp.Loader(numbers())
        next(iter(loader))
        with pytest.raises(StateError, match="consumed"):
            fp.Loader(numbers()).load_state_dict(
                signed({**saved(loader), "position": json.dumps({"consumed": consumed})})
            )

    @pytest.mark.parametrize("cursor", [["abc", 0, 1], [[1, 2, 3], 0, 1], None, [None, -1, 0], [None, 0], 7])
    def test_a_damaged_cursor_is_refused(self, cursor):
        loader = fp.Loader(streamed().shuffle(window=4).batch(5), shards=1)
        next(iter(loader))
        state = signed({**saved(loader), "position": json.dumps({"cursors": {"0": cursor}, "ended": {}})})
        other = fp.Loader(streamed().shuffle(window=4).batch(5), shards=1)
        with pytest.raises(StateError, match="position"):
            other.load_state_dict(state)
            next(iter(other))

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


class TestErrors:
    def test_rows_before_a_failure_come_first_and_the_error_stays(self):
        def picky(x: int) -> int:
            if x == 7:
                raise KeyError("seven")
            return x

        for pipe in (numbers(), streamed()):
            for loader in (fp.Loader(pipe.map(picky)), fp.Loader(pipe.map(picky), fp.InProcess(debug=True))):
                iterator = iter(loader)
                got = []
                with pytest.raises(fp.RowError) as first:
                    got.extend(iterator)
                assert isinstance(first.value.__cause__, KeyError)
                assert "test_loader.py" in str(first.value) and "row 8" in str(first.value)
                with pytest.raises(fp.RowError) as again:
                    next(iterator)
                assert again.value is first.value

    @pytest.mark.filterwarnings("ignore:`flaky.fails`")  # the state was taken with another value
    def test_state_after_an_error_points_at_the_failing_row(self):
        fails = [True]

        def flaky(x: int) -> int:
            if x == 3 and fails[0]:
                raise ValueError
            return x

        loader = fp.Loader(streamed().map(flaky))
        got = []
        with pytest.raises(fp.RowError):
            got.extend(iter_into(loader, got))
        fails[0] = False
        resumed = fp.Loader(streamed().map(flaky))
        resumed.load_state_dict(saved(loader))
        assert got + list(resumed) == list(range(12))

    @pytest.mark.filterwarnings("ignore:`slow.hit`")  # the state was taken with another value
    def test_an_interrupt_is_no_quiet_end(self):
        hit = [True]

        def slow(x: int) -> int:
            if x == 5 and hit[0]:
                raise KeyboardInterrupt
            return x

        for pipe in (numbers().map(slow), streamed().map(slow)):
            hit[0] = True
            loader = fp.Loader(pipe)
            for iterator in (iter(loader), iter(pipe)):
                with pytest.raises(KeyboardInterrupt):
                    list(iterator)
                with pytest.raises(LoaderError, match="KeyboardInterrupt"):
                    next(iterator)
            hit[0] = False
            state, step = saved(loader), loader.step
            assert loader.epoch == 0
            resumed = fp.Loader(pipe)
            resumed.load_state_dict(state)
            assert list(resumed) == list(range(step, 12))

    def test_warnings_name_the_users_line(self):
        with pytest.warns(UserWarning, match="left out") as seen:
            list(fp.Loader(numbers(13), rank=0, world_size=3))
        assert seen[0].filename == __file__

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

    def test_lengths(self):
        assert len(fp.Loader(numbers(10).batch(3))) == 4
        with pytest.raises(UnknownLengthError, match="filter"):
            len(fp.Loader(streamed()))
        assert list(fp.Loader(streamed())) == list(range(12))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"workers": -1}, "`workers` must be >= 0"),
            ({"seed": -1}, "`seed` must be >= 0"),
            ({"rank": 1}, "together"),
            ({"rank": 2, "world_size": 2}, "below the world size"),
            ({"even": "maybe"}, "`even` must be one of"),
            ({"steps": 0}, "`steps` must be >= 1 but got: 0"),
            ({"shards": 0}, "`shards` must be >= 1"),
        ],
    )
    def test_arguments(self, options, words):
        with pytest.raises(ArgumentError, match=words) as error:
            fp.Loader(numbers(), **options)
        assert "test_loader.py" in str(error.value)

    def test_shards_must_fit_the_ranks(self):
        with pytest.raises(PlanError, match="multiple of the 2 ranks"):
            list(fp.Loader(streamed(), rank=0, world_size=2, shards=3, even=None))


def iter_into(loader, into):
    for x in loader:
        into.append(x)
    return []


@dataclass(frozen=True)
class Signalled(Operator):
    """Passes rows on. A resume comes when a signal does."""

    kind: ClassVar[str] = "signalled"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def blocks(self, stage, at, context):
        if at.token is not None:
            signal.raise_signal(signal.SIGUSR1)
        return stage.input.blocks(Cursor.of(at.token).advance(at.skip), context)


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
def test_an_exception_of_a_signal_handler_is_no_fault_of_the_state(error):
    def handle(number, frame):
        raise error("of the handler")

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        loader, other = (fp.Loader(streamed().then(Signalled())) for _ in range(2))
        next(iter(loader))
        other.load_state_dict(saved(loader))
        with pytest.raises(error, match="of the handler") as caught:
            next(iter(other))
        assert caught.type is error
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_order_with_a_shuffle_does_not_depend_on_ranks():
    # Shards take turns, so rank r of 2 gives every second element of a single rank.
    pipe = numbers(160).filter(lambda x: True).shuffle(window=6)
    one = list(fp.Loader(pipe, shards=16))
    two = [list(fp.Loader(pipe, rank=r, world_size=2, shards=16, even=None)) for r in range(2)]
    assert one[::2] == two[0] and one[1::2] == two[1]


def test_a_source_that_cannot_be_cut_is_read_once_by_a_process():
    runs = []

    def source():
        runs.append(1)
        yield from range(100)

    loader = fp.Loader(fp.from_iterable(source).shuffle(window=4).batch(3))
    assert sorted(sum(loader, [])) == list(range(100))
    assert len(runs) == 1


def test_numpy_elements_have_valid_rows():
    pipe = fp.from_sequence([np.zeros((3, 2)), np.ones((2, 2))])
    assert [info.valid.tolist() for _, info in fp.Loader(pipe).with_info()] == [[True] * 3, [True] * 2]


def reciprocal(row):
    return 1 / row


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_loader_that_has_not_begun_can_be_pickled(on_error):
    first = 0 if on_error == "skip" else 1  # 0 is skipped
    loader = fp.Loader(fp.from_sequence(range(first, 6)).map(reciprocal, on_error=on_error))
    assert len(loader.state_dict()) == 13
    loader = pickle.loads(pickle.dumps(loader))
    assert list(loader) == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert pickle.loads(pickle.dumps(loader)).epoch == 1


@pytest.mark.parametrize(
    ("service", "words"), [(4, "4; `workers=4` reads"), ("ray", "'ray'$"), (fp.InProcess, "InProcess$"), ([], r"\[\]$")]
)
def test_what_is_no_service(service: object, words: str) -> None:
    words = "`service` must be a reading service, such as `fp.Threads(2)`, but got: ".replace("(2)", r"\(2\)") + words
    with pytest.raises(ArgumentTypeError, match=f"(?m){words}"):
        fp.Loader(numbers(), service)  # type: ignore[arg-type]
