from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.testing import check_operator


def test_law():
    a, b = fp.from_sequence(range(9)), fp.from_sequence(range(10, 15))
    whole = [*range(9), *range(10, 15), *range(9)]
    assert check_operator(a.concat(b, a)) == whole
    assert check_operator(a.filter(lambda x: True).concat(b, a)) == whole
    assert check_operator(a.concat(b, a).shuffle().batch(4)) != whole
    assert check_operator(fp.from_sequence([]).concat(b)) == list(range(10, 15))


def test_length_and_index():
    pipe = fp.from_sequence("ab").concat(fp.from_sequence("c"))
    assert len(pipe) == 3 and pipe[2] == "c"


def test_only_pipes():
    with pytest.raises(ArgumentTypeError, match="the inputs of `concat` must be pipes but got: "):
        fp.from_sequence("ab").concat([1, 2])
