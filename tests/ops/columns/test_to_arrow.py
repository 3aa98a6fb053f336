"""`to_arrow`: batches of rows as record batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

TABLE = pa.table({"n": [1, None, 3, 4, 5], "t": list("abcde"), "l": [[1], [], None, [4], [5, 6]]})


def record_batch(rows: list[Any]) -> pa.RecordBatch:
    (batch,) = fp.from_sequence(rows).batch(len(rows)).to_arrow()
    return batch


def test_law() -> None:
    assert [batch.num_rows for batch in check_operator(fp.from_table(TABLE).batch(2).to_arrow())] == [2, 2, 1]
    check_operator(fp.from_table(TABLE).filter(lambda row: row["n"] != 3).batch(2).to_arrow())
    check_operator(fp.from_sequence(TABLE.to_pylist()).batch(2).to_arrow())
    assert check_operator(fp.from_table(TABLE[:0]).batch(2).to_arrow()) == []


def test_the_columns_of_a_table_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Rows) -> Any:
        raise AssertionError("a row became a dict")

    monkeypatch.setattr(Rows, "__iter__", never)
    array = np.arange(8.0)
    (batch,) = fp.from_arrays({"x": array}).batch(8).to_arrow()
    assert batch.column("x").buffers()[1].address == array.__array_interface__["data"][0]
    assert pa.Table.from_batches(fp.from_table(TABLE).batch(2).to_arrow()) == TABLE


def test_arrays_of_columns_and_of_rows_become_tensors() -> None:
    pipe = fp.from_arrays({"x": np.arange(12, dtype="float32").reshape(3, 2, 2)})
    (from_columns,) = pipe.batch(3).to_arrow()
    (from_rows,) = pipe.map(lambda row: row).batch(3).to_arrow()
    assert from_columns == from_rows
    assert from_columns.column("x").type == pa.fixed_shape_tensor(pa.float32(), (2, 2))


WRONG: dict[str, tuple[list[Any], str]] = {
    "two types": ([{"a": 1}, {"a": "x"}], r"`\.to_arrow\(\)`: field `a`: its values cannot form a column: .*'x'"),
    "an object": ([{"a": object()}], "field `a`: its values cannot form a column"),
    "an int of 65 bits": ([{"a": 2**64}], "field `a`: its values cannot form a column"),
    "arrays of several axes and shapes": ([{"a": np.ones((1, 2))}, {"a": np.ones((2, 2))}], "field `a`"),
    "a name that is not a string": ([{1: 1}], "the name of a column must be a string but got: 1"),
    "no dicts": ([1, 2], r"rows must be dicts, .* but one is of type int; make dicts with a `.map` before `.batch`"),
}


@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG.keys())
def test_rows_that_cannot_form_columns_are_errors(rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        record_batch(rows)
    assert "batch that begins at from_sequence, row 1" in str(caught.value)
    assert __file__ in str(caught.value)


def test_times_of_pandas_keep_their_nanoseconds() -> None:
    row = {"at": pd.Timestamp("2024-01-01 00:00:00.000000001"), "span": pd.Timedelta(3, "ns")}
    (batch,) = fp.from_sequence([row, row]).batch(2).to_arrow()
    assert batch.to_pylist() == [row, row]
