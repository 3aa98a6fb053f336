"""`fill_null`: values in place of nulls and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, DataError, PlanError
from feedpipe.testing import check_operator, same

from ..tables import TABLE, variants


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    rows = check_operator(pipe.fill_null({"text": "?", "tags": ["none"], "id": 0}), samples=5)
    assert [row["text"] for row in rows] == ["a", "?", "c", "d", "e"]
    assert [row["tags"] for row in rows] == [["u"], [], ["none"], ["v", "w"], ["x"]]
    assert check_operator(pipe.skip(9).fill_null({"id": 0})) == []


def test_nan_is_missing() -> None:
    array = np.array([1, np.nan, 3], "float32")
    table = pa.table({"x": pa.array([1, None, np.nan], "float32")})
    for pipe in (fp.from_arrays({"x": array}).fill_null({"x": 3}), fp.from_table(table).fill_null({"x": np.int64(3)})):
        assert [row["x"] for row in pipe][1] == 3 and list(pipe)[-1] == {"x": 3}
        assert pipe.batch(3)[0].arrow.schema.field("x").type == pa.float32()
    assert list(fp.from_sequence([{"x": float("nan")}]).fill_null({"x": 2})) == [{"x": 2.0}]
    arrays = fp.from_arrays({"x": np.array([[1, np.nan]])}).fill_null({"x": 0.5})
    assert same(list(arrays), [{"x": np.array([1, 0.5])}])


def test_other_types_of_columns() -> None:
    table = pa.table(
        {
            "category": pa.array(["a", None]).dictionary_encode(),
            "nothing": pa.nulls(2),
            "flag": [True, None],
        }
    )
    pipe = fp.from_table(table).fill_null({"category": "b", "nothing": 1.5, "flag": False})
    assert list(pipe) == [
        {"category": "a", "nothing": 1.5, "flag": True},
        {"category": "b", "nothing": 1.5, "flag": False},
    ]
    assert pipe.schema == pipe.batch(2)[0].arrow.schema


def test_errors() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(
        ArgumentTypeError, match="`values` must map names of columns to values, such as .* but got: 'age'"
    ):
        pipe.fill_null("age")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="the value for 'id' must not be missing but got: None"):
        pipe.fill_null({"id": None})
    with pytest.raises(PlanError, match="column 'id' is of type int64, which does not have the value 0.5; `.cast`"):
        pipe.fill_null({"id": 0.5}).explain()
    with pytest.raises(PlanError, match=r"there is no column 'txt'; did you mean 'text'\?"):
        pipe.fill_null({"txt": ""}).explain()
    with pytest.raises(PlanError, match="column 'text' is of type string, which does not have the value 0;"):
        pipe.fill_null({"text": 0}).explain()
    rows: fp.Pipe[Any] = fp.from_sequence([{"x": None}, {"y": 1}])
    with pytest.raises(DataError, match="there is no column 'x'(.|\n)*from_sequence, row 2\n"):
        list(rows.fill_null({"x": 0}))
