"""`Loader`: its arguments, properties and errors."""

from __future__ import annotations

import pickle
import signal
from dataclasses import dataclass
from typing import ClassVar

import pytest

import feedpipe as fp
from feedpipe.errors import (
    ArgumentError,
    LoaderError,
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


class TestErrors:
    def test_rows_before_a_failure_come_first_and_the_error_stays(self):
        def picky(x: int) -> int:
            if x == 7:
                raise KeyError("seven")
            return x

        for pipe in (numbers(), streamed()):
            failing = pipe.map(picky)
            for run in (failing, fp.Loader(failing), fp.Loader(failing, fp.InProcess(debug=True))):
                iterator = iter(run)
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


def reciprocal(row):
    return 1 / row


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_loader_that_has_not_begun_can_be_pickled(on_error):
    first = 0 if on_error == "skip" else 1  # 0 is skipped
    loader = fp.Loader(fp.from_sequence(range(first, 6)).map(reciprocal, on_error=on_error))
    assert len(loader.state_dict()) == 14
    loader = pickle.loads(pickle.dumps(loader))
    assert list(loader) == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert pickle.loads(pickle.dumps(loader)).epoch == 1
