from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError
from feedpipe.testing import check_operator


@pytest.mark.parametrize("source", [fp.from_sequence(range(7)), fp.from_sequence(range(7)).filter(lambda x: True)])
def test_law(source):
    assert check_operator(source.repeat(3)) == list(range(7)) * 3
    assert check_operator(source.repeat(0)) == []
    rows = check_operator(source.shuffle(window=5).repeat(3))
    rounds = [rows[k : k + 7] for k in (0, 7, 14)]
    assert all(sorted(r) == list(range(7)) for r in rounds) and len(set(map(tuple, rounds))) > 1


def test_without_end():
    assert fp.from_sequence("ab").repeat().head(5) == list("ababa")
    assert list(fp.from_sequence([]).repeat()) == []
    loader = fp.Loader(fp.from_sequence(range(3)).shuffle().repeat(), steps=4)
    rows = list(loader) + list(loader) + list(loader)
    assert [sorted(rows[k : k + 3]) for k in range(0, 12, 3)] == [[0, 1, 2]] * 4


def test_arguments():
    with pytest.raises(ArgumentError, match="`times` must be >= 0"):
        fp.from_sequence("ab").repeat(-1)
