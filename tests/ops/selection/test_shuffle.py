from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, PlanError, PlanWarning
from feedpipe.extensions import Context
from feedpipe.testing import check_operator

from ...support.core import process as memory
from ...support.engine import Permutation


@given(st.integers(0, 60), st.integers(1, 70))
def test_law_of_a_window(count, window):
    pipe = fp.from_sequence(range(count)).filter(lambda x: True).shuffle(window=window)
    assert sorted(check_operator(pipe, samples=4)) == list(range(count))


def test_law_of_a_full_shuffle():
    rows = check_operator(fp.from_sequence(range(50)).shuffle())
    assert sorted(rows) == list(range(50)) and rows != list(range(50))


@given(st.integers(1, 300), st.integers(0, 2**32))
def test_a_computed_permutation_is_a_permutation(length, seed):
    permutation = Permutation(Context(seed=seed).key("x"), length, max_drawn_length=0)
    assert sorted(permutation[range(length)]) == list(range(length))
    assert permutation[np.array([length - 1, 0])].tolist() == [
        permutation[range(length)][-1],
        permutation[range(length)][0],
    ]


def test_epochs_rounds_seeds_and_names_differ():
    source = fp.from_sequence(range(100))
    runs = [check_operator(source.shuffle(), epoch=e, samples=1) for e in range(3)]
    runs.append(check_operator(source.shuffle(), seed=1, samples=1))
    runs.append(check_operator(source.shuffle(seed=4), samples=1))
    runs.append(list(source.shuffle(name="mine")))
    rounds = list(source.shuffle().repeat(2))
    runs += [rounds[:100], rounds[100:]]
    assert len({tuple(run) for run in runs}) == len(runs)


def test_no_more_orders_of_rounds_are_drawn_than_are_remembered(monkeypatch):
    monkeypatch.setattr("feedpipe.ops.shuffle.MAX_MEMO_BYTES", 3 * 100 * 8)
    drawn = []
    monkeypatch.setattr(
        "feedpipe.ops.shuffle.Permutation",
        lambda key, length, most: drawn.append(length <= most) or Permutation(key, length, most),
    )
    rows = list(fp.from_sequence(range(100)).shuffle().repeat(10).shuffle())
    assert sorted(rows) == sorted(list(range(100)) * 10)
    assert drawn.count(True) == 3 and len(drawn) == 11  # the last shuffle has 1,000 rows


def test_its_own_seed_is_independent_of_the_loader():
    pipe = fp.from_sequence(range(50)).shuffle(seed=3)
    assert list(fp.Loader(pipe, seed=1)) == list(fp.Loader(pipe, seed=2))


def test_a_window_moves_rows_by_about_half_a_window():
    rows = list(fp.from_sequence(range(10_000)).shuffle(window=1000))
    distance = np.abs(np.array(rows) - np.arange(10_000))
    assert 100 < distance.mean() < 500 and distance.max() < 10_000 / 2


@pytest.mark.slow
def test_every_order_is_equally_likely():
    orders = Counter(tuple(check_operator(fp.from_sequence(range(3)).shuffle(), seed=s, samples=1)) for s in range(600))
    assert len(orders) == 6 and min(orders.values()) > 60


def test_a_streamed_pipe_needs_a_window():
    with pytest.raises(PlanError, match=r"streamed; give `window=10_000`.*\.load\(\)") as error:
        fp.from_sequence(range(3)).filter(bool).shuffle()
    assert "test_shuffle.py" in str(error.value)
    with pytest.raises(ArgumentError, match="`window` must be >= 1"):
        fp.from_sequence(range(3)).shuffle(window=0)


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        (2, "9ece7a8fafe2489a"),
        (7, "591bcc37acba7bfa"),
        (16, "ca0f75df180aa6cd"),
        (100, "748a0a0c671016db"),
        (1500, "9a314b2b7e847805"),
    ],
)
def test_an_order_stays_what_it_was(window, rows):
    """A state that was saved earlier would else go on with other rows."""
    pipe = fp.from_sequence(range(1000)).filter(lambda x: True).shuffle(window=window)
    assert hashlib.sha256(repr(list(pipe)).encode()).hexdigest()[:16] == rows


@pytest.mark.parametrize("window", [None, 20])
def test_one_order_for_all_epochs(window):
    source = fp.from_sequence(range(100))
    source = source if window is None else source.filter(lambda x: True)
    fixed = source.shuffle(window, each_epoch=False)
    runs = [check_operator(fixed, epoch=epoch, samples=2) for epoch in range(2)]
    assert runs[0] == runs[1] != list(range(100))
    assert list(fixed.repeat(2)) == 2 * runs[0]
    loader = fp.Loader(fixed.batch(10), seed=1)
    assert list(loader) == list(loader) != list(fp.Loader(fixed.batch(10), seed=2))


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(memory, "memory_budget", lambda: 400_000)


def test_windows_that_hold_much_memory_are_told_with_the_line(small_memory):
    def arrays(pipe: fp.Pipe[int]) -> fp.Pipe[object]:
        return pipe.map(lambda i: np.zeros(100))

    source = fp.from_sequence(range(100)).filter(lambda i: True)
    loader = fp.Loader(arrays(source).shuffle(window=160))
    with pytest.warns(PlanWarning) as warnings:
        rows = [len(list(loader)) for _ in range(2)]
    assert rows == [100, 100]
    (warning,) = warnings
    assert str(warning.message) == (
        "`shuffle(window=160)` holds about 125 KiB on each rank; this is more than a quarter of the 391 KiB "
        "that a rank may use; give a smaller window or fewer shards, or shuffle before the operator that makes rows "
        "large"
    )
    assert warning.filename == __file__
    list(fp.Loader(arrays(source.shuffle(window=20))))
    list(fp.Loader(arrays(source).shuffle(window=20)))
    list(fp.Loader(arrays(source.take(5)).shuffle(window=10_000)))  # the window is not filled


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["struct", "list", "map"])
def test_nested_text_of_more_than_two_gib(kind):
    text = pa.array(["x" * 2**20])
    one = pa.array([0, 1], pa.int32())
    column = {
        "struct": lambda: pa.StructArray.from_arrays([text], ["text"]),
        "list": lambda: pa.ListArray.from_arrays(one, text),
        "map": lambda: pa.MapArray.from_arrays(one, pa.array([1]), text),
    }[kind]()
    batches = fp.from_table(pa.table({"nested": column})).repeat(2100).batch(2100)
    (batch,) = batches
    assert len(batch) == 2100 and batch[2099]["nested"] == column[0].as_py()
