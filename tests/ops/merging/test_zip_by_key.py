from __future__ import annotations

import random

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.testing import check_operator


def numbers(rows):
    return fp.from_sequence(list(rows))


def displaced(count, distance, seed=0):
    """The numbers up to `count`, none of them more than `distance` away from its place."""
    chance = random.Random(seed)
    return sorted(range(count), key=lambda number: number + chance.random() * distance)


def pairs(rows):
    return [(row, f"{row}") for row in rows]


def key(row):
    return int(row)


class TestPairs:
    def test_law(self):
        left, right = numbers(displaced(60, 8)), numbers(map(str, displaced(60, 8, seed=1)))
        for one in (left, left.filter(lambda row: True)):
            for other in (right, right.filter(lambda row: True)):
                rows = check_operator(one.zip_by_key(other, key=key, window=20), samples=6)
                assert rows == pairs(left)

    def test_law_if_rows_have_no_partner(self):
        left, right = displaced(60, 6), [row for row in displaced(90, 6, seed=2) if row % 4]
        pipe = numbers(left).zip_by_key(numbers(map(str, right)), key=key, window=25, unmatched="drop")
        assert check_operator(pipe, samples=8) == pairs(row for row in left if row % 4)

    def test_rows_of_one_key_come_in_their_order(self):
        right = numbers([(1, "a"), (2, "b"), (1, "c")])
        rows = list(numbers([1, 1, 2]).zip_by_key(right, key=lambda row: row, other_key=lambda row: row[0]))
        assert rows == [(1, (1, "a")), (1, (1, "c")), (2, (2, "b"))]


class TestWindow:
    def test_a_partner_within_it(self):
        assert list(numbers([5]).zip_by_key(numbers(range(6)), key=key, window=6)) == [(5, 5)]

    def test_the_error_says_which_window_would_do(self):
        with pytest.raises(DataError, match=r"the key 5 has no partner within the window of 5 rows .*`window=6` would"):
            list(numbers([5]).zip_by_key(numbers(range(9)), key=key, window=5))
        assert list(numbers([0, 5]).zip_by_key(numbers(range(9)), key=key, window=5)) == [(0, 0), (5, 5)]

    def test_rows_before_an_error_come_first(self):
        rows = []
        with pytest.raises(DataError, match=r"(?s)the key 9 has no partner.*does not come later.*from_sequence, row 3"):
            rows.extend(numbers([0, 1, 9, 2]).zip_by_key(numbers(range(5)), key=key))
        assert rows == [(0, 0), (1, 1)]

    def test_it_bounds_the_rows_that_are_kept(self):
        right = (row for row in range(100))
        pipe = numbers(range(50, 100)).zip_by_key(fp.from_iterable(lambda: right), key=key, window=60)
        assert list(pipe) == [(row, row) for row in range(50, 100)]
        late = numbers([59, 0]).zip_by_key(numbers(range(100)), key=key, window=60)
        assert list(late) == [(59, 59), (0, 0)]
        with pytest.raises(DataError, match="the key 0 has no partner"):
            list(numbers([59, 61, 0]).zip_by_key(numbers(range(100)), key=key, window=60))

    def test_dropped_rows_do_not_hold_up_the_other_pipe(self):
        left = [*range(10), *range(1000, 1100), *range(200, 210)]
        pipe = numbers(left).zip_by_key(numbers(range(300)), key=key, window=150, unmatched="drop")
        assert [row for row, _ in pipe] == [*range(10), *range(200, 210)]


class TestErrors:
    def test_keys(self):
        table = fp.from_table(pa.table({"id": [1]}))
        with pytest.raises(PlanError, match="there is no column 'ix'"):
            list(table.zip_by_key(table, key="id", other_key="ix"))
        with pytest.raises(DataError, match="there is no column 'id'"):
            list(numbers([{"ix": 1}]).zip_by_key(numbers([{"id": 1}]), key="id"))
        with pytest.raises(DataError, match=r"a key must be hashable but is: \[1\]"):
            list(numbers([[1]]).zip_by_key(numbers([1]), key=lambda row: row))
        with pytest.raises(DataError, match=r"a key of the other pipe must be hashable but is: \[1\]"):
            list(numbers([1]).zip_by_key(numbers([[1]]), key=lambda row: row))

    def test_arguments(self):
        with pytest.raises(ArgumentError, match="`window` must be >= 1 but got: 0"):
            numbers([1]).zip_by_key(numbers([1]), key=key, window=0)
        with pytest.raises(ArgumentError, match="`unmatched` must be one of 'error', 'drop' but got: 'skip'"):
            numbers([1]).zip_by_key(numbers([1]), key=key, unmatched="skip")
        with pytest.raises(ArgumentTypeError, match="`key` must be a column, columns or a function but got: None"):
            numbers([1]).zip_by_key(numbers([1]), key=None)
