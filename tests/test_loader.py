"""`Loader`: its arguments, properties and errors."""

from __future__ import annotations

import pickle
import signal
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import (
    ArgumentError,
    ArgumentTypeError,
    LoaderError,
    UnknownLengthError,
)
from feedpipe.extensions import Cursor, Operator, Order

from .loading.small_pipes import numbers, saved, streamed


class TestProperties:
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

    def test_dataset(self):
        pipe = numbers()
        assert fp.Loader(pipe).dataset is pipe

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
        assert repr(loader) == "Loader(fp.from_sequence(range(0, 12)).batch(4), InProcess(), epoch 0, step 1 of 3)"
        loader = fp.Loader(streamed(), fp.InProcess(debug=True), steps=7)
        assert repr(loader).endswith("InProcess(debug=True), epoch 0, step 0 of 7)")

    def test_repr_of_a_long_chain_is_one_line_and_reads_nothing(self):
        pipe = fp.list_files(["missing"] * 9).open_files().parse_lines()
        for _ in range(50):
            pipe = pipe.map(lambda line: line)
        loader = fp.Loader(pipe.concat(pipe).batch(4))
        assert repr(loader) == "Loader(fp.list_files(<list of 9>) ... .batch(4), InProcess(), epoch 0, step 0)"

    def test_debug_gives_the_same(self):
        for pipe in (numbers().shuffle().batch(5), streamed().shuffle(window=4).prefetch(2).batch(5)):
            assert list(fp.Loader(pipe, fp.InProcess(debug=True))) == list(fp.Loader(pipe))


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
            got.extend(loader)
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


def test_a_chosen_epoch_is_in_the_state_before_it_begins() -> None:
    loader, other = (fp.Loader(fp.from_sequence(range(9)).shuffle(), seed=1) for _ in range(2))
    for epoch in (3, 5):  # before the first epoch, and after one
        loader.set_epoch(epoch)
        state = loader.state_dict()
        assert (state["epoch"], state["step"]) == (epoch, 0)
        other.load_state_dict(state)
        assert list(other) == list(loader)


def test_a_device_hides_nothing_of_the_service() -> None:
    service = fp.Threads(4, memory=1000)
    pipe = fp.from_iterable(range(8)).batch(4)
    with fp.Loader(pipe, service) as plain, fp.Loader(pipe, service, device="cpu") as moving:
        assert moving._epochs.memory == plain._epochs.memory == 1000
        assert repr(moving) == repr(plain)


def test_an_empty_number_of_local_ranks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "")
    with pytest.raises(fp.ArgumentError, match="`LOCAL_WORLD_SIZE` must be a whole number but is: ''"):
        next(iter(fp.Loader(fp.from_sequence(range(6)), workers=1)))
