from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, LimitError
from feedpipe.testing import check_operator


def test_law():
    pipe = fp.from_sequence(range(30)).filter(lambda x: x % 2)
    assert check_operator(pipe.load()) == list(range(1, 30, 2))
    assert sorted(check_operator(pipe.load().shuffle().batch(4).unbatch())) == list(range(1, 30, 2))


def test_it_reads_once():
    runs: list[int] = []

    def rows():
        runs.append(1)
        yield from range(5)

    pipe = fp.from_iterable(rows).load()
    assert runs == []
    assert len(pipe) == 5 and pipe[-1] == 4 and list(pipe) == list(pipe)
    loader = fp.Loader(pipe.shuffle())
    assert sorted(loader) == sorted(loader) == list(range(5))
    assert runs == [1]


def test_the_limit():
    with pytest.raises(LimitError, match=r"`load\(limit='1KB'\)` is full after .* larger `limit`"):
        len(fp.from_sequence([b"x" * 100] * 100).load(limit="1KB"))
    with pytest.raises(ArgumentError, match='`limit` must be a size such as "1GiB"'):
        fp.from_sequence("a").load(limit="much")


def test_an_error_while_loading_is_raised_each_time():
    pipe = fp.from_sequence([1, 0]).map(lambda x: 1 / x).load()
    for _ in range(2):
        with pytest.raises(fp.RowError, match="row 2"):
            list(pipe)
