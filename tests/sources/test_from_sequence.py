from __future__ import annotations

import numpy as np
import pandas as pd
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


def test_an_iterator_is_no_sequence():
    with pytest.raises(ArgumentTypeError, match=r"length and an index.*from_iterable"):
        fp.from_sequence(iter([1]))


def test_a_series_gives_its_values_by_position() -> None:
    frame = pd.DataFrame({"path": ["a", "b", "c"], "n": [0, 1, 2], "t": pd.to_datetime([3, 4, 5])}, index=[2, 0, 1])
    for name in frame:
        assert list(fp.from_sequence(frame[name])) == frame[name].tolist()
        assert fp.from_sequence(frame[name])[1] == frame[name].iloc[1]
        assert list(fp.Loader(fp.from_sequence(frame[name][::-1]), shards=2)) == frame[name].tolist()[::-1]


def test_a_dict_has_no_order_by_position() -> None:
    with pytest.raises(ArgumentTypeError, match="its keys are no positions"):
        fp.from_sequence({0: "a"})
