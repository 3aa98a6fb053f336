from __future__ import annotations

import random
from itertools import count

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError
from feedpipe.testing import check_operator


def streamed(n: int) -> fp.Pipe[int]:
    return fp.from_sequence(range(n)).filter(lambda x: True)


@pytest.fixture(params=["indexed", "streamed"])
def source(request: pytest.FixtureRequest) -> fp.Pipe[int]:
    return fp.from_sequence(range(30)) if request.param == "indexed" else streamed(30)


def test_law(source):
    assert check_operator(source.map(lambda x: x * x)) == [x * x for x in range(30)]


def test_keyed_draws_belong_to_the_row(source):
    pipe = source.map(lambda x, rng: (x, int(rng.integers(10**9))), rng=True)
    rows = check_operator(pipe)
    assert len({draw for _, draw in rows}) == 30
    assert rows != check_operator(pipe, epoch=1)
    assert rows != check_operator(pipe, seed=1)


def test_global_generators_are_seeded_and_restored(source):
    import torch

    pipe = source.map(lambda x: (random.random(), float(np.random.rand()), float(torch.rand(()))), rng="global")
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = random.random(), np.random.rand(), torch.rand(())
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    rows = check_operator(pipe)
    assert len(set(rows)) == 30
    assert (random.random(), np.random.rand(), torch.rand(())) == expected


def test_inserting_a_map_changes_no_draws():
    draw = lambda x, rng: float(rng.random())  # noqa: E731
    plain = fp.from_sequence(range(9)).shuffle()
    assert list(plain) == list(fp.from_sequence(range(9)).map(lambda x: x).shuffle())
    one = fp.from_sequence(range(9)).map(draw, rng=True, name="crop")
    other = fp.from_sequence(range(9)).map(lambda x: x).map(draw, rng=True, name="crop")
    assert list(one) == list(other)


def test_an_error_names_operator_line_and_row(source):
    def broken(x: int) -> int:
        return 1 // (x - 7)

    rows: list[int] = []
    with pytest.raises(fp.RowError) as error:
        rows.extend(source.map(broken))
    assert rows == [broken(x) for x in range(7)]
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    text = str(error.value)
    assert "`.map(" in text and "broken" in text and "from_sequence, row 8" in text
    assert __file__ in text
    assert error.value.origin == fp.errors.Origin("from_sequence", 8)


def test_a_failure_that_does_not_repeat_is_still_raised():
    calls = count()
    fails = {20}

    def flaky(x: int) -> int:
        if x in fails:
            fails.clear()
            raise OSError("once")
        next(calls)
        return x

    rows: list[int] = []
    with pytest.raises(fp.RowError, match="once"):
        rows.extend(fp.from_sequence(range(30)).map(flaky))
    assert rows[:20] == list(range(20))


def test_arguments():
    with pytest.raises(ArgumentTypeError, match="`function` must be callable but got: 3") as error:
        fp.from_sequence([1]).map(3)
    assert "test_map.py" in str(error.value)
    with pytest.raises(ArgumentError, match="`rng` must be one of"):
        fp.from_sequence([1]).map(str, rng="sometimes")
