"""`sample`: draws of rows by position, keyed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, PlanError
from feedpipe.testing import check_operator


@given(st.integers(1, 40), st.integers(0, 60), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3))
def test_law(rows: int, size: int, weighted: bool, replacement: bool, fixed: bool, epoch: int) -> None:
    weights = [k % 3 for k in range(1, rows + 1)] if weighted else None
    drawable = [k for k in range(rows) if not weighted or (k + 1) % 3]
    size = size if replacement else min(size, len(drawable))
    pipe = fp.from_sequence(range(rows)).sample(size, weights=weights, replacement=replacement, each_epoch=not fixed)
    got = check_operator(pipe, samples=3, epoch=epoch)
    assert len(got) == len(pipe) == size and set(got) <= set(drawable)
    assert replacement or len({*got}) == size


def test_by_default_it_draws_each_row_once() -> None:
    source = fp.from_sequence(range(50))
    assert sorted(source.sample()) == list(range(50)) != list(source.sample())
    assert len(source.sample(replacement=True)) == 50 > len({*source.sample(replacement=True)})
    assert sorted(source.sample(weights=np.arange(50))) == list(range(1, 50))


def test_draws_are_as_likely_as_their_weights() -> None:
    weights = [1, 0, 3, 6]
    source = fp.from_sequence(range(4))
    drawn = Counter(source.sample(50_000, weights=weights, replacement=True))
    assert np.allclose([drawn[k] / 50_000 for k in range(4)], np.array(weights) / 10, atol=0.01)
    drawn = Counter(source.sample(50_000, replacement=True))
    assert np.allclose([drawn[k] / 50_000 for k in range(4)], 0.25, atol=0.01)


def test_draws_without_replacement_follow_the_weights_of_the_rows_left() -> None:
    pipe = fp.from_sequence(range(3)).sample(2, weights=[1, 2, 1]).repeat(8000)
    pairs = Counter(zip(*[iter(pipe)] * 2, strict=True))
    expected = {(0, 1): 1 / 4 * 2 / 3, (0, 2): 1 / 4 / 3, (1, 0): 1 / 4, (1, 2): 1 / 4, (2, 1): 1 / 6, (2, 0): 1 / 12}
    assert all(abs(pairs[pair] / 8000 - share) < 0.02 for pair, share in expected.items())


def test_epochs_seeds_and_rounds() -> None:
    source = fp.from_sequence(range(1000))
    loader = fp.Loader(source.sample(20, weights=np.ones(1000)), seed=1)
    runs = [list(loader), list(loader), list(fp.Loader(source.sample(20, weights=np.ones(1000)), seed=2))]
    rounds = list(source.sample(20).repeat(2))
    assert len({tuple(rows) for rows in [*runs, rounds[:20], rounds[20:]]}) == 5
    fixed = fp.Loader(source.sample(20, seed=3, each_epoch=False), seed=1)
    assert list(fixed) == list(fixed) == list(source.sample(20, seed=3))


def test_errors() -> None:
    source = fp.from_sequence(range(3))
    arguments: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"size": -1}, ArgumentError, "`size` must be >= 0 but got: -1"),
        ({"weights": [1, -2, 3]}, ArgumentError, "finite numbers >= 0 but that of row 2 is: -2.0"),
        ({"weights": [1, 2, float("nan")]}, ArgumentError, "finite numbers >= 0 but that of row 3 is: nan"),
        ({"weights": [0, 0, 0]}, ArgumentError, "must not all be 0"),
        ({"weights": "abc"}, ArgumentTypeError, "`weights` must be a list or an array with a number for each row"),
        ({"replacement": 1}, ArgumentTypeError, "`replacement` must be True or False"),
        ({"seed": -1}, ArgumentError, "`seed` must be >= 0"),
    ]
    for keywords, error, text in arguments:
        with pytest.raises(error, match=text):
            source.sample(**keywords)
    for pipe, text in (
        (source.sample(4), "`size` must be at most the number of rows, 3, but is 4; give `replacement=True`"),
        (source.sample(3, weights=[1, 0, 1]), "at most the number of rows with a weight above 0, 2, but is 3"),
        (source.sample(1, weights=[1, 2]), "there must be a weight for each of 3 rows but there are 2"),
        (fp.from_sequence([]).sample(1, replacement=True), "there are no rows to draw 1 from"),
    ):
        with pytest.raises(PlanError, match=rf"`sample\(.*{text}(.|\n)*\n  at "):
            len(pipe)
    with pytest.raises(PlanError, match="`sample` must follow an indexed pipe"):
        source.filter(bool).sample(1)
