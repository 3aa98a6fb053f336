"""`clip`: numbers within bounds, by the type of the column."""

from __future__ import annotations

from decimal import Decimal

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
    rows = check_operator(pipe.clip("half", low=1, high=np.float64(2)).clip(["id"], high=3), samples=5)
    assert rows == [{**row, "half": min(2, max(1, row["half"])), "id": min(3, row["id"])} for row in TABLE.to_pylist()]
    assert check_operator(pipe.skip(9).clip("id", low=0)) == []


def test_types_stay() -> None:
    table = pa.table(
        {
            "small": pa.array([-100, None, 100], "int8"),
            "float": pa.array([-np.inf, None, np.nan], "float32"),
            "all": pa.array([-1, 0, 300], "int64"),
        }
    )
    pipe = fp.from_table(table).clip(["small", "float", "all"], low=-50, high=255)
    assert pipe.schema == table.schema == next(iter(pipe.batch(3))).arrow.schema
    assert pipe.batch(3)[0].arrow.to_pydict()["small"] == [-50, None, 100]
    rows = list(pipe)
    assert rows[0] == {"small": -50, "float": -50, "all": -1} and rows[1]["float"] is None
    assert np.isnan(rows[2]["float"]) and rows[2]["all"] == 255
    assert list(fp.from_sequence([{"x": Decimal("1.5")}, {"x": None}]).clip("x", high=1)) == [{"x": 1.0}, {"x": None}]


def test_arrays_are_clipped_number_by_number() -> None:
    array = np.arange(6.0).reshape(3, 2)
    for pipe in (fp.from_arrays({"x": array}), fp.from_arrays({"x": array}).map(lambda row: row)):
        rows = check_operator(pipe.clip("x", low=1, high=3))
        assert same([row["x"] for row in rows], list(np.clip(array, 1, 3)))


def test_errors() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(ArgumentError, match=r"`low` must be <= `high` but got: 2 and 1\n  at .*test_clip.py"):
        pipe.clip("id", low=2, high=1)
    with pytest.raises(ArgumentError, match="`clip` must have `low` or `high` but got neither"):
        pipe.clip("id")
    with pytest.raises(ArgumentError, match="`low` must be a number but got: nan"):
        pipe.clip("id", low=float("nan"))
    with pytest.raises(ArgumentTypeError, match="`high` must be a number but got: '3'"):
        pipe.clip("id", high="3")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"there is no column 'hlaf'; did you mean 'half'\?\n  at .*test_clip.py"):
        pipe.clip("hlaf", low=0).explain()
    with pytest.raises(PlanError, match="column 'text' is of type string, and numbers are needed; `.cast` parses text"):
        pipe.clip("text", low=0).explain()
    with pytest.raises(PlanError, match="column 'id' is of type int64, which does not have the number 0.5 of `low`"):
        pipe.clip("id", low=0.5).explain()
    rows = fp.from_sequence([{"x": 1}, {"x": "2"}]).clip("x", low=0)
    with pytest.raises(DataError, match="column 'x' is of type string, and numbers(.|\n)*from_sequence, row 2\n"):
        list(rows)
