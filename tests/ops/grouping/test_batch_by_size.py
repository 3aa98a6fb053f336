from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..groups import numbers, pipes, places


def by_hand(sizes: list[int], order: list[int], limit: int, max_rows: int | None, padded: bool) -> list[list[int]]:
    """Row by row, as a reference."""
    batches: list[list[int]] = []
    for n in order:
        grown = [*batches[-1], n] if batches else [n]
        rows = [sizes[k] for k in grown]
        total = max(rows) * len(rows) if padded else sum(rows)
        if not batches or total > limit or len(grown) > (max_rows or len(sizes)):
            batches.append([])
        batches[-1].append(n)
    return batches


@settings(max_examples=examples(20))
@given(numbers, st.integers(6, 20), st.none() | st.integers(1, 4), st.booleans())
def test_batches_in_order(numbers, limit, max_rows, padded):
    expected = by_hand(numbers, list(range(len(numbers))), limit, max_rows, padded)
    arguments = {"max_rows": max_rows, "padded": padded}
    for pipe in pipes(numbers):
        assert places(check_operator(pipe.batch_by_size(limit, "tokens", **arguments), samples=3)) == expected
        assert places(list(pipe.batch_by_size(limit, lambda row: row["x"], **arguments))) == expected
        last_is_dropped = pipe.batch_by_size(limit, "x", drop_last=True, **arguments)
        assert places(check_operator(last_is_dropped, samples=2)) == expected[:-1]


@settings(max_examples=examples(20))
@given(numbers, st.integers(6, 20), st.integers(1, 12), st.booleans())
def test_batches_of_a_window(numbers, limit, window, padded):
    expected: list[list[int]] = []
    for first in range(0, len(numbers), window):
        order = sorted(range(first, min(first + window, len(numbers))), key=lambda n: numbers[n])
        expected += sorted(map(sorted, by_hand(numbers, order, limit, None, padded)), key=min)
    for pipe in pipes(numbers):
        batches = check_operator(pipe.batch_by_size(limit, "x", window=window, padded=padded), samples=3)
        assert places(batches) == expected


def test_the_shards_of_a_rank_leave_over_one_batch():
    pipe = pipes([2] * 23)[0].filter(lambda row: True).batch_by_size(8, "x")
    for window in (None, 4):
        pipe = pipes([2] * 23)[0].filter(lambda row: True).batch_by_size(8, "x", window=window)
        batches = list(fp.Loader(pipe, shards=4))
        assert sorted(sum(places(batches), [])) == list(range(23))
        assert sorted(map(len, batches)) == [3, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("window", [None, 2])
def test_a_row_above_the_limit_is_named(window):
    iterator = iter(pipes([2, 2, 3, 9])[0].filter(lambda row: True).batch_by_size(4, "x", window=window))
    assert places([next(iterator)]) == [[0, 1]]
    with pytest.raises(DataError, match="a row of size 9 is above the `limit` of 4; raise it") as error:
        next(iterator)
    assert "on from_sequence, row 4" in str(error.value) and "test_batch_by_size.py" in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"limit": 0}, ArgumentError, "`limit` must be >= 1"),
        ({"limit": None}, ArgumentTypeError, "`limit` must be an int"),
        ({"limit": 3, "size_of": 3}, ArgumentTypeError, "`size_of` must be the name of a column or a function"),
        ({"limit": 3, "max_rows": 0}, ArgumentError, "`max_rows` must be >= 1"),
        ({"limit": 3, "window": 0}, ArgumentError, "`window` must be >= 1"),
        ({"limit": 3, "window": 3, "drop_last": True}, ArgumentError, "`drop_last` must be left out with a `window`"),
    ],
)
def test_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        fp.from_sequence(["a"]).batch_by_size(**{"size_of": len, **arguments})
