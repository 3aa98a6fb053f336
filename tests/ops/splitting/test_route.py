"""`route`: each row in the pipe that the function names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator


@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 4))
def test_law(values: list[int], count: int) -> None:
    pipes = fp.from_sequence(values).route(lambda x: x % count, count)
    assert len(pipes) == count
    for number, pipe in enumerate(pipes):
        assert check_operator(pipe, samples=4) == [x for x in values if x % count == number]


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
