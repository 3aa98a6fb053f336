from __future__ import annotations

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, UnknownLengthError
from feedpipe.testing import check_operator


def test_law():
    assert check_operator(fp.from_sequence(range(40)).filter(lambda x: x % 3)) == [x for x in range(40) if x % 3]
    assert check_operator(fp.from_sequence(range(40)).filter(lambda x: False)) == []
    pipe = fp.from_sequence(range(40)).filter(lambda x: x % 3).filter(lambda x: x % 2)
    assert check_operator(pipe) == [x for x in range(40) if x % 3 and x % 2]


def test_rows_before_a_failure_come_first():
    def broken(x: int) -> bool:
        return bool(x % 2) if x < 9 else 1 // 0 == 0

    rows: list[int] = []
    with pytest.raises(fp.RowError, match="row 10"):
        rows.extend(fp.from_sequence(range(30)).filter(broken))
    assert rows == [1, 3, 5, 7]


@pytest.mark.parametrize("count", [1, 4])
def test_an_answer_that_is_neither_true_nor_false_is_an_error_of_its_row(count):
    with pytest.raises(fp.RowError, match="truth value of an array.*(.|\n)*row 1\n"):
        list(fp.from_sequence(range(count)).filter(lambda x: np.array([True, False])))


def test_a_stop_iteration_is_an_error_not_the_end():
    numbers = iter([True] * 5)
    with pytest.raises(fp.RowError, match="StopIteration"):
        list(fp.from_sequence(range(30)).filter(lambda x: next(numbers)))


class StopsWhenTested:
    def __bool__(self) -> bool:
        return next(iter(()))


@pytest.mark.parametrize("failing", range(10))
@pytest.mark.parametrize("source", [fp.from_sequence(range(10)), fp.from_arrays({"x": np.arange(10)})])
def test_a_stop_iteration_is_an_error_of_its_row(source, failing):
    def keep(row):
        if number(row) == failing:
            next(iter(()))
        return True

    def answer(row):
        return StopsWhenTested() if number(row) == failing else True

    def number(row):
        return row["x"] if isinstance(row, dict) else row

    for predicate in (keep, answer):
        rows = []
        with pytest.raises(fp.RowError, match=f"{predicate.__name__} raised StopIteration(.|\n)*row {failing + 1}\n"):
            rows.extend(source.filter(predicate))
        assert [number(row) for row in rows] == list(range(failing))


@pytest.mark.parametrize("failing", range(10))
def test_an_element_whose_truth_value_stops_is_an_error_of_its_row(failing):
    elements = [*range(1, 11)]
    elements[failing] = StopsWhenTested()
    rows = []
    with pytest.raises(fp.RowError, match=f"bool raised StopIteration(.|\n)*row {failing + 1}\n"):
        rows.extend(fp.from_sequence(elements).filter(bool))
    assert rows == elements[:failing]


def test_length_is_unknown():
    pipe = fp.from_sequence(range(3)).filter(bool)
    with pytest.raises(UnknownLengthError, match=r"filter\(bool\)"):
        len(pipe)
    assert bool(pipe) and list(pipe) == [1, 2]
    with pytest.raises(ArgumentTypeError, match="`predicate` must be callable but got: None"):
        fp.from_sequence([1]).filter(None)
