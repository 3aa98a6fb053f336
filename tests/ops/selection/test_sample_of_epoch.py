"""`sample(weights=function)`: the weights are those that a function returns for the number of the epoch."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator

from ...loading.elastic import Job, count
from ...loading.resumes import check_resumes_in_two_epochs
from ...support.examples import examples

ROWS = fp.from_sequence(range(30))


def losses(epoch: int) -> list[float]:
    """Half of the rows have a weight, in each epoch other ones."""
    return [float((n + epoch) % 2 * (n + 1)) for n in range(30)]


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.integers(1, 30), st.data(), st.booleans(), st.integers(0, 3))
def test_each_epoch_draws_as_with_its_own_weights(count: int, data: Any, replacement: bool, epoch: int) -> None:
    weights = [
        data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count).filter(any)) for _ in range(epoch + 1)
    ]
    size = data.draw(st.integers(0, 40 if replacement else sum(map(bool, weights[epoch]))))
    rows = fp.from_sequence(range(count))
    pipe = rows.sample(size, weights=weights.__getitem__, replacement=replacement)
    fixed = rows.sample(size, weights=weights[epoch], replacement=replacement)
    assert check_operator(pipe, samples=2, epoch=epoch) == check_operator(fixed, samples=1, epoch=epoch)
    assert len(pipe) == size


def test_epochs_and_lengths() -> None:
    loader = fp.Loader(ROWS.sample(10, weights=losses))
    for epoch in range(4):
        rows = list(loader)
        assert len(set(rows)) == 10 and {(row + epoch) % 2 for row in rows} == {1}
    assert len(ROWS.sample(weights=losses, replacement=True)) == 30


def test_resumes_in_two_epochs() -> None:
    check_resumes_in_two_epochs(ROWS.sample(12, weights=losses).batch(2), every=1)


@settings(max_examples=examples(40))
@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 4))
def test_goes_on_on_another_number_of_ranks(first: int, second: int, ranks: int) -> None:
    pipe = ROWS.sample(12, weights=losses).filter(lambda row: True).shuffle(window=4)
    before, states = Job(pipe, 2).take([first, second])
    after = Job(pipe, ranks, states).rest()
    assert count(before) + count(after) == count(list(fp.Loader(pipe)))


def test_order_of_a_run_never_changes() -> None:
    loader = fp.Loader(ROWS.sample(12, weights=losses).concat(ROWS.sample(9, weights=losses, replacement=True)), seed=1)
    text = json.dumps([list(loader), list(loader)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "d7b3793741107324"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"weights": losses}, "`size` must be given if `weights` is a function"),
    ({"size": 3, "weights": losses, "each_epoch": False}, "`each_epoch` must be left out if `weights` is a function"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        ROWS.sample(**arguments)
    assert __file__ in str(caught.value)


WRONG: list[tuple[Any, str]] = [
    ([1.0] * 29, "there must be a weight for each of 30 rows but there are 29"),
    ([0.0] * 30, "`weights` must not all be 0"),
    ([-1.0] * 30, "`weights` must be finite numbers >= 0 but that of row 1 is: -1.0"),
    (["a"], "`weights` must be a list or an array"),
    (None, "`weights` must be a list or an array"),
    (np.eye(1, 30)[0], "`size` must be at most the number of rows with a weight above 0, 1, but is 12"),
]


@pytest.mark.parametrize(("weights", "message"), WRONG, ids=range(len(WRONG)))
def test_weights_that_do_not_fit(weights: Any, message: str) -> None:
    loader = fp.Loader(ROWS.sample(12, weights=lambda epoch: weights if epoch else losses(0)))
    assert len(list(loader)) == 12
    with pytest.raises(DataError, match=f"in epoch 1, .*{message}") as caught:
        list(loader)
    assert __file__ in str(caught.value)
