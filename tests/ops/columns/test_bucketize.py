"""`bucketize`: numbers of intervals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.testing import check_operator, same

from ..tables import TABLE, variants


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    rows = check_operator(pipe.bucketize("half", boundaries=[1, 1.5, 2.2]).bucketize("id", boundaries=(3,)), samples=5)
    assert [(row["half"], row["id"]) for row in rows] == [(0, 0), (1, 0), (2, 1), (2, 1), (3, 1)]
    assert check_operator(pipe.skip(9).bucketize("id", boundaries=[1])) == []


def test_missing_values_and_infinities() -> None:
    values = [None, float("nan"), float("-inf"), float("inf"), 0.0]
    for stored, pipe in variants(pa.table({"x": values})).items():
        rows = list(pipe.bucketize("x", boundaries=np.array([0, 1])))
        assert [row["x"] for row in rows] == [None, None, 0, 2, 1], stored
    pipe = fp.from_table(pa.table({"x": values})).bucketize("x", boundaries=[0, 1])
    assert pipe.schema == pipe.batch(5)[0].arrow.schema == pa.schema([("x", pa.int64())])
    arrays = fp.from_arrays({"x": np.array([[0, 1, np.nan]])}).bucketize("x", boundaries=[0.5])
    assert same(list(arrays), [{"x": np.array([0, 1, 1])}])


def test_errors() -> None:
    pipe = fp.from_table(TABLE)
    for wrong in ([2, 1], [1, 1], [], [float("nan")]):
        with pytest.raises(ArgumentError, match="`boundaries` must be numbers that rise but got: "):
            pipe.bucketize("id", boundaries=wrong)  # type: ignore[arg-type]
    for kind in (3, "12", ["a"], [None, {}], [[1, 2]]):
        with pytest.raises(ArgumentTypeError, match="`boundaries` must be a list of numbers but got: "):
            pipe.bucketize("id", boundaries=kind)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="column 'text' is of type string, and numbers are needed"):
        pipe.bucketize("text", boundaries=[1]).explain()
    with pytest.raises(DataError, match="column 'x' is of type string, and numbers are needed(.|\n)*row 1\n"):
        list(fp.from_sequence([{"x": "1"}]).bucketize("x", boundaries=[1]))
