from __future__ import annotations

from collections.abc import Iterator

import pytest

import feedpipe as fp
from feedpipe.testing import check_operator


def test_law():
    pipe = fp.from_sequence(range(20)).flat_map(lambda x: [x] * (x % 4))
    assert check_operator(pipe) == [x for x in range(20) for _ in range(x % 4)]
    assert check_operator(fp.from_sequence(range(20)).flat_map(lambda x: [])) == []
    long = fp.from_sequence(range(3)).flat_map(lambda x: range(100))
    assert check_operator(long) == list(range(100)) * 3


def test_an_expansion_is_read_lazily():
    def endless(x: int) -> Iterator[int]:
        while True:
            yield x

    assert fp.from_sequence([1]).flat_map(endless).head(3) == [1, 1, 1]


def test_a_generator_that_fails_halfway():
    def broken(x: int) -> Iterator[int]:
        yield x
        if x == 5:
            raise KeyError(x)
        yield x

    rows: list[int] = []
    with pytest.raises(fp.RowError, match="row 6") as error:
        rows.extend(fp.from_sequence(range(9)).flat_map(broken))
    assert rows == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert isinstance(error.value.__cause__, KeyError)
