"""`index_of`: places in a list of values."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.testing import check_operator

from ..tables import TABLE, variants


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    found = pipe.index_of("text", values=["e", "d", "c"]).index_of("id", values=[1, 5], unknown=2)
    rows = check_operator(found, samples=5)
    assert [row["text"] for row in rows] == [-1, -1, 2, 1, 0]
    assert [row["id"] for row in rows] == [0, 2, 2, 2, 1]
    assert check_operator(pipe.skip(9).index_of("id", values=[1])) == []


def test_types() -> None:
    table = pa.table(
        {
            "category": pa.array(["b", None, "a"]).dictionary_encode(),
            "large": pa.array(["b", None, "a"], "large_string"),
            "float": [2.0, None, float("nan")],
            "day": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 2)],
            "flag": [True, None, False],
        }
    )
    pipe = fp.from_table(table).index_of("category", values=["a", "b"]).index_of("large", values=("a", "b"))
    pipe = pipe.index_of("float", values=[1, 2]).index_of("day", values=[datetime.date(2024, 1, 2)])
    columns = pipe.index_of("flag", values=[False, True]).batch(3)[0].columns
    assert {name: list(column) for name, column in columns.items()} == {
        "category": [1, -1, 0],
        "large": [1, -1, 0],
        "float": [1, -1, -1],
        "day": [-1, -1, 0],
        "flag": [1, -1, 0],
    }
    assert all(isinstance(column, np.ndarray) and column.dtype == np.int64 for column in columns.values())


def test_errors() -> None:
    pipe = fp.from_table(TABLE)
    for values, message in (
        ([], "`values` must have at least one value but got: "),
        ([1, 2, 1], "`values` must be different but has 1 twice"),
    ):
        with pytest.raises(ArgumentError, match=message):
            pipe.index_of("id", values=values)
    for wrong in ([1, "a"], [None, 1], "abc", 5):
        with pytest.raises(ArgumentTypeError, match="`values` must be "):
            pipe.index_of("id", values=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`column` must be the name of a column but got: "):
        pipe.index_of(["id"], values=[1])  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="column 'id' is of type int64, and `values` has text, such as 'a'; `.cast` it"):
        pipe.index_of("id", values=["a"]).explain()
    with pytest.raises(PlanError, match=r"there is no column 'idd'; did you mean 'id'\?"):
        pipe.index_of("idd", values=[1]).explain()
    with pytest.raises(PlanError, match="column 'x' is of type .*, and single values are needed"):
        fp.from_arrays({"x": np.zeros((2, 2))}).index_of("x", values=[1.0]).explain()
    rows = fp.from_sequence([{"x": 1}, {"x": "b"}]).index_of("x", values=[1])
    with pytest.raises(DataError, match="is of type string, and `values` has numbers(.|\n)*from_sequence, row 2\n"):
        list(rows)
