import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.testing import check_operator


def test_law():
    assert check_operator(fp.from_sequence("abcde").enumerate(2)) == list(enumerate("abcde", 2))
    assert check_operator(fp.from_sequence("abcde").filter(lambda x: x != "b").enumerate()) == list(enumerate("acde"))


def test_positions_are_those_among_all_rows_on_any_rank():
    pipe = fp.from_sequence(range(20)).filter(lambda x: x % 2).enumerate()
    parts = [list(fp.Loader(pipe, rank=r, world_size=2, even=None)) for r in range(2) if r]
    assert parts == [[(i, 2 * i + 1) for i in range(1, 10, 2)]]


def test_start():
    with pytest.raises(ArgumentTypeError, match="`start` must be an int"):
        fp.from_sequence("a").enumerate("b")
