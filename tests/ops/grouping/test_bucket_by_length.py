from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, RowError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..groups import numbers, pipes, places


def by_hand(lengths: list[int], size: int, window: int, boundaries: list[int] | None) -> list[list[int]]:
    """Row by row, as a reference."""
    groups = []
    for first in range(0, len(lengths), window):
        segment = range(first, min(first + window, len(lengths)))
        if boundaries is None:
            buckets = [sorted(segment, key=lambda n: lengths[n])]
        else:
            edges = [float("-inf"), *boundaries, float("inf")]
            buckets = [[n for n in segment if low <= lengths[n] < high] for low, high in pairwise(edges)]
        parts = [bucket[k : k + size] for bucket in buckets for k in range(0, len(bucket), size)]
        groups += sorted(map(sorted, parts), key=min)
    return groups


@settings(max_examples=examples(20))
@given(numbers, st.integers(1, 4), st.integers(1, 12), st.none() | st.just([2, 4]), st.booleans())
def test_buckets(numbers, size, window, boundaries, drop_last):
    arguments = {"window": window, "boundaries": boundaries, "drop_last": drop_last}
    expected = [b for b in by_hand(numbers, size, window, boundaries) if len(b) == size or not drop_last]
    for pipe in pipes(numbers):
        assert places(check_operator(pipe.bucket_by_length(size, "tokens", **arguments), samples=3)) == expected
        for length in ("x", "text", lambda row: row["x"] / 2 if boundaries is None else row["x"]):
            assert places(list(pipe.bucket_by_length(size, length, **arguments))) == expected


def test_batches_of_a_table_stay_columns_and_need_little_padding():
    lengths = [n * 7 % 50 for n in range(1000)]
    batch = next(iter(pipes(lengths)[1].bucket_by_length(10, "tokens")))
    assert isinstance(batch, Rows)
    buckets = pipes(lengths)[0].bucket_by_length(10, "tokens")
    assert max(max(r["x"] for r in batch) - min(r["x"] for r in batch) for batch in buckets) <= 1


@pytest.mark.parametrize(
    ("values", "message", "row"),
    [
        ([[1], None], "`length` must give a number >= 0 for each row, or an item that has a length but gave: None", 2),
        ([1.0, float("nan")], "but gave: nan", 2),
        ([1, -1], "but gave: -1", 2),
        ([True], "but gave: True", 1),
    ],
)
def test_lengths_that_are_none(values, message, row):
    records = [{"x": value} for value in values]
    for pipe in (fp.from_sequence(records), fp.from_table(pa.Table.from_pylist(records))):
        with pytest.raises(DataError, match=message) as error:
            list(pipe.bucket_by_length(2, "x"))
        assert f", row {row}\n" in str(error.value)
    with pytest.raises(DataError, match="`length` must give a number >= 0 for each row but gave: 'a'"):
        list(fp.from_sequence([1]).bucket_by_length(2, lambda row: "a"))
    with pytest.raises(RowError, match="ZeroDivisionError"):
        list(fp.from_sequence([0]).bucket_by_length(2, lambda row: 1 / row))
    with pytest.raises(DataError, match="there is no column 'y'"):
        list(pipes([1])[1].bucket_by_length(2, "y"))
    with pytest.raises(DataError, match="rows must be dicts with 'y'"):
        list(pipes([1])[0].bucket_by_length(2, "y"))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"size": 0}, ArgumentError, "`size` must be >= 1"),
        ({"size": 2, "window": 0}, ArgumentError, "`window` must be >= 1"),
        ({"size": 2, "length": 3}, ArgumentTypeError, "`length` must be the name of a column or a function"),
        ({"size": 2, "boundaries": [3, 2]}, ArgumentError, r"`boundaries` must be numbers that rise but got: \[3, 2\]"),
        ({"size": 2, "boundaries": ["a"]}, ArgumentTypeError, "`boundaries` must be a list of numbers"),
    ],
)
def test_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        fp.from_sequence(["a"]).bucket_by_length(**{"length": len, **arguments})
