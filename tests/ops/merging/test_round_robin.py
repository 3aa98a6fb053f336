from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError
from feedpipe.testing import check_operator

from ..tables import streamed

A, B, C = fp.from_sequence("abcde"), fp.from_sequence([1, 2]), fp.from_sequence("XYZ")


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("longest", ["a", 1, "X", "b", 2, "Y", "c", "Z", "d", "e"]),
        ("first", ["a", 1, "X", "b", 2, "Y", "c"]),
    ],
)
def test_law(stop, expected):
    assert check_operator(A.round_robin(B, C, stop=stop)) == expected
    assert check_operator(streamed(A).round_robin(B, streamed(C), stop=stop)) == expected


def test_after_an_end_the_next_input_has_its_turn():
    assert "".join(fp.from_sequence("ac").round_robin(fp.from_sequence("b"), fp.from_sequence("xyz"))) == "abxcyz"


def test_many_inputs():
    pipes = [fp.from_sequence([k, -k]) for k in range(40)]
    assert list(pipes[0].round_robin(*pipes[1:])) == [*range(40), *(-k for k in range(40))]
    assert list(streamed(pipes[0]).round_robin(*pipes[1:])) == [*range(40), *(-k for k in range(40))]


def test_stop():
    with pytest.raises(ArgumentError, match="`stop` must be one of 'first', 'longest' but got: 1"):
        A.round_robin(B, stop=1)
