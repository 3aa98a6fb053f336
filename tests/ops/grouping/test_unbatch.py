from __future__ import annotations

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.testing import check_operator


def test_law():
    assert check_operator(fp.from_sequence(range(20)).batch(3).unbatch()) == list(range(20))
    assert check_operator(fp.from_sequence([[], [1], [], [2, 3], []]).unbatch()) == [1, 2, 3]
    assert check_operator(fp.from_sequence([(1, 2), range(3), "ab"]).unbatch()) == [1, 2, 0, 1, 2, "a", "b"]


def test_arrays():
    rows = check_operator(fp.from_sequence([np.arange(3), np.arange(2)]).unbatch())
    assert [int(x) for x in rows] == [0, 1, 2, 0, 1]


def test_an_element_that_is_not_iterable_is_an_error():
    with pytest.raises(fp.RowError, match="not iterable"):
        list(fp.from_sequence([[1], 2]).unbatch())
