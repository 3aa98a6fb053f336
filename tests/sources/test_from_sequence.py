from __future__ import annotations

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.testing import check_operator


class Squares:
    def __len__(self) -> int:
        return 9

    def __getitem__(self, i: int) -> int:
        return i * i


@pytest.mark.parametrize(
    "sequence", [[1, 2, 3], (1, 2), range(40), "abc", Squares(), np.arange(5), []], ids=lambda s: type(s).__name__
)
def test_law(sequence):
    expected = [sequence[i] for i in range(len(sequence))]
    assert check_operator(fp.from_sequence(sequence)) == expected
    assert sorted(check_operator(fp.from_sequence(sequence).shuffle())) == sorted(expected)


def test_index_and_length():
    pipe = fp.from_sequence(Squares())
    assert len(pipe) == 9 and pipe[-1] == 64 and pipe.head(2) == [0, 1]


def test_an_iterator_is_no_sequence():
    with pytest.raises(ArgumentTypeError, match=r"length and an index.*from_iterable"):
        fp.from_sequence(iter([1]))
