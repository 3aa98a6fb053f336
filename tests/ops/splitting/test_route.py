"""`route`: each row in the pipe that the function names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ..tables import variants


@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 4))
def test_law(values: list[int], count: int) -> None:
    pipes = fp.from_sequence(values).route(lambda x: x % count, count)
    assert len(pipes) == count
    for number, pipe in enumerate(pipes):
        assert check_operator(pipe, samples=4) == [x for x in values if x % count == number]


@pytest.mark.parametrize("stored", variants())
def test_columns_stay_columns(stored: str) -> None:
    rest, most = variants()[stored].route(lambda row: row["half"] > 1, 2)
    assert [row["id"] for row in check_operator(most)] == [3, 4, 5]
    assert [row["id"] for row in check_operator(rest)] == [1, 2]
    assert isinstance(next(iter(most.batch(9))), Rows) == ("columns" in stored)


def test_answers_of_numpy() -> None:
    source = fp.from_sequence(np.arange(4))
    assert list(source.route(lambda x: x > 2, 2)[1]) == [3]
    assert list(source.route(lambda x: x % 3, 3)[2]) == [2]


def test_errors() -> None:
    pipe: fp.Pipe[Any] = fp.from_sequence([0, 1, 2, 3])
    for function, answer in ((lambda x: x, "3"), (lambda x: 1 - x, "-1"), (lambda x: x / 2, "0.0")):
        with pytest.raises(DataError, match=rf"an int from 0 to 2, but returned: {answer}\n  on .*, row \d\n  at "):
            list(pipe.route(function, 3)[0])
    rows: list[int] = []
    with pytest.raises(fp.RowError, match=r"route(.|\n)*ZeroDivisionError(.|\n)*row 3\n"):
        rows.extend(pipe.route(lambda x: int(1 / (x - 2)) * 0, 1)[0])
    assert rows == [0, 1]
    with pytest.raises(ArgumentError, match="`count` must be >= 1 but got: 0"):
        pipe.route(int, 0)


def test_code_and_state() -> None:
    pipes = fp.from_sequence(range(9)).route(bool, 2)
    assert repr(pipes[1]) == "fp.from_sequence(range(0, 9)).route(bool, 2)[1]"
    loader = fp.Loader(pipes[1])
    next(iter(loader))
    with pytest.raises(fp.errors.StateError, match="route"):
        fp.Loader(pipes[0]).load_state_dict(loader.state_dict())
