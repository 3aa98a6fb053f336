from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, RowError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..groups import numbers, pipes, places


def by_hand(keys: list[Any], size: int | None, window: int, least: int) -> list[list[int]]:
    """Row by row, as a reference."""
    groups: list[list[int]] = []
    for first in range(0, len(keys), window):
        open_groups: dict[Any, list[int]] = {}
        for n in range(first, min(first + window, len(keys))):
            group = open_groups.get(keys[n])
            if group is None or len(group) == size:
                group = open_groups[keys[n]] = []
                groups.append(group)
            group.append(n)
    return [group for group in groups if len(group) >= least]


@settings(max_examples=examples(20))
@given(numbers, st.none() | st.integers(1, 4), st.integers(1, 12), st.booleans())
def test_groups(numbers, size, window, drop_last):
    arguments = {"size": size, "window": window, "drop_last": drop_last and size is not None}
    expected = by_hand(numbers, size, window, size if arguments["drop_last"] else 1)
    for pipe in pipes(numbers):
        for key in ("x", ["x", "text"]):
            assert places(list(pipe.group_by(key, **arguments))) == expected
        assert places(check_operator(pipe.group_by("text", **arguments), samples=3)) == expected
        assert places(list(pipe.group_by(lambda row: row["x"], **arguments))) == expected


def test_null_and_nan_are_keys():
    for values, groups in (
        ([1.0, None, 1.0, None], [[0, 2], [1, 3]]),
        ([float("nan"), 0.0, float("nan"), -0.0], [[0, 2], [1, 3]]),
        (["a", None, "a", ""], [[0, 2], [1], [3]]),
    ):
        records = [{"x": value, "y": value, "n": n} for n, value in enumerate(values)]
        for pipe in (fp.from_sequence(records), fp.from_table(pa.Table.from_pylist(records))):
            assert places(list(pipe.group_by("x"))) == groups
            assert places(list(pipe.group_by(["x", "y"]))) == groups
    nans = fp.from_arrays({"x": np.array([np.nan, 1, np.nan]), "n": np.arange(3)})
    assert places(list(nans.group_by("x"))) == [[0, 2], [1]]


def test_a_rank_groups_what_its_shards_leave_over():
    keys = [n % 3 for n in range(50)]
    pipe = pipes(keys)[0].filter(lambda row: True).group_by("x", size=4, window=12)
    loader = fp.Loader(pipe, shards=4)
    groups = list(loader)
    assert sorted(sum(places(groups), [])) == list(range(50))
    assert sum(len(group) < 4 for group in groups) <= 3 * len(by_hand(keys, None, 12, 1))
    for taken in (0, 3, len(groups) - 1):
        other = fp.Loader(pipe, shards=4)
        iterator = iter(other)
        assert places([next(iterator) for _ in range(taken)]) == places(groups[:taken])
        resumed = fp.Loader(pipe, shards=4)
        resumed.load_state_dict(json.loads(json.dumps(other.state_dict())))
        assert places(list(resumed)) == places(groups[taken:])


def test_keys_that_cannot_be():
    unhashable = fp.from_sequence([{"x": 1}, {"x": [2]}]).filter(lambda row: True)
    with pytest.raises(DataError, match=r"a key must be hashable but is: \[2\]") as error:
        list(unhashable.group_by("x"))
    assert "on from_sequence, row 2" in str(error.value) and "test_group_by.py" in str(error.value)
    with pytest.raises(DataError, match="a key must be hashable"):
        list(fp.from_table(pa.table({"x": [[1], [2]]})).group_by("x"))
    with pytest.raises(PlanError, match=r"`.group_by\('y'\)`: there is no column 'y'; there are 'n', 'x', 'text'"):
        list(pipes([1])[1].group_by("y"))
    with pytest.raises(DataError, match="no column 'y'"):
        list(pipes([1])[0].group_by("y"))
    with pytest.raises(RowError, match="ZeroDivisionError") as failed:
        list(fp.from_sequence([1, 2, 0]).group_by(lambda n: 1 // n))
    assert "row 3" in str(failed.value)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"key": 3}, ArgumentTypeError, "`key` must be the name of a column, names, or a function"),
        ({"key": None}, ArgumentTypeError, "`key` must be a column, columns or a function"),
        ({"key": "x", "size": 0}, ArgumentError, "`size` must be >= 1"),
        ({"key": "x", "window": 0}, ArgumentError, "`window` must be >= 1"),
        ({"key": "x", "drop_last": True}, ArgumentError, "`drop_last` needs a `size`"),
    ],
)
def test_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        fp.from_sequence([1]).group_by(**arguments)
