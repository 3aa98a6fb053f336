"""`drop_null`: rows in which nothing is missing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, DataError, PlanError
from feedpipe.testing import check_operator

from ..tables import TABLE, variants


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    assert [row["id"] for row in check_operator(pipe.drop_null(), samples=5)] == [1, 4, 5]
    assert [row["id"] for row in check_operator(pipe.drop_null("tags"), samples=5)] == [1, 2, 4, 5]
    assert [row["id"] for row in check_operator(pipe.drop_null(["id", "text"]), samples=5)] == [1, 3, 4, 5]
    assert check_operator(pipe.skip(9).drop_null()) == []


def test_nan_is_missing() -> None:
    array = np.array([1, np.nan, 3])
    assert [row["x"] for row in fp.from_arrays({"x": array, "y": np.arange(3)}).drop_null()] == [1, 3]
    table = pa.table({"x": pa.array([1, None, np.nan, 4], "float32")})
    assert [row["x"] for row in fp.from_table(table).drop_null("x")] == [1, 4]
    assert list(fp.from_sequence([{"x": np.float32("nan")}, {"x": 2.0}]).drop_null()) == [{"x": 2.0}]
    vectors = fp.from_arrays({"x": np.full((2, 2), np.nan)})
    assert len(list(vectors.drop_null())) == 2  # an array is there, whatever its numbers are


def test_errors() -> None:
    with pytest.raises(PlanError, match=r"`\.drop_null\(\['txt'\]\)`: there is no column 'txt'; did you mean 'text'\?"):
        fp.from_table(TABLE).drop_null("txt").explain()
    with pytest.raises(ArgumentTypeError, match="`columns` must be a list of names but got: 3"):
        fp.from_table(TABLE).drop_null(3)  # type: ignore[arg-type]
    rows = fp.from_sequence([{"x": 1}, {"y": 1}]).drop_null("x")
    with pytest.raises(DataError, match="there is no column 'x'(.|\n)*from_sequence, row 2\n"):
        list(rows)
    assert repr(fp.from_sequence([]).drop_null()).endswith(".drop_null()")
