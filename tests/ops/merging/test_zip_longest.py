from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import RowError
from feedpipe.testing import check_operator

A, B, C = fp.from_sequence(range(9)), fp.from_sequence("abcdef"), fp.from_sequence([])
PADDED = [*zip(range(6), "abcdef", strict=True), (6, None), (7, None), (8, None)]


def streamed(pipe):
    return pipe.filter(lambda row: True)


def test_law():
    assert check_operator(A.zip_longest(B)) == PADDED
    assert check_operator(streamed(A).zip_longest(B)) == PADDED
    assert check_operator(B.zip_longest(streamed(A))) == [(b, a) for a, b in PADDED]
    assert check_operator(A.zip_longest(streamed(B), streamed(C), fill=0)) == [(a, b or 0, 0) for a, b in PADDED]
    assert check_operator(streamed(C).zip_longest(C)) == []


def test_an_input_that_has_ended_is_not_read_again():
    reads = []

    def letters():
        reads.append(1)
        yield from "ab"

    loader = fp.Loader(streamed(A).zip_longest(fp.from_iterable(letters)))
    epoch = iter(loader)
    taken = [next(epoch) for _ in range(5)]
    state = loader.state_dict()
    loader.load_state_dict(state)
    reads.clear()
    assert taken + list(loader) == [(0, "a"), (1, "b"), *((k, None) for k in range(2, 9))]
    assert not reads


def test_an_error_names_the_row_of_an_input_that_has_one():
    with pytest.raises(RowError, match="from_sequence, row 8"):
        list(B.zip_longest(A).map(lambda pair: 1 // (pair[1] - 7)))
