"""`map_columns`: functions of columns as NumPy arrays, Arrow record batches and torch tensors."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, RowError
from feedpipe.testing import check_operator, same

DAY = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
TABLE = pa.table(
    {
        "n": range(7),
        "t": ["a", None, "c", "d", "e", "f", "g"],
        "l": [[i] * i for i in range(7)],
        "b": [i % 2 == 0 for i in range(7)],
        "at": pa.array([DAY + datetime.timedelta(i) for i in range(7)], pa.timestamp("us", "UTC")),
        "c": pa.array(list("uvuvuvu")).dictionary_encode(),
        "s": [{"k": i} for i in range(7)],
    }
)
NUMBERS = fp.from_arrays({"x": np.arange(5), "y": np.arange(10.0).reshape(5, 2)})

Function = Callable[..., Any]


def batches(table: Any = TABLE, size: int = 3) -> Any:
    return fp.from_table(table).batch(size)


def rows(pipe: Any) -> list[Any]:
    return [row for batch in pipe for row in batch]


def test_law() -> None:
    def doubled(columns: Any) -> Any:
        return {"n": columns["n"] * 2, "t": columns["t"]}

    def even(batch: Any) -> Any:
        return batch.filter(pc.equal(batch["b"], True))

    check_operator(batches().map_columns(doubled))
    check_operator(batches().map_columns(even, format="arrow").unbatch().batch(2))
    check_operator(fp.from_table(TABLE).filter(lambda row: row["n"] % 3).batch(2).map_columns(doubled).collate())
    check_operator(NUMBERS.shuffle().batch(2).map_columns(lambda c: {"x": c["x"] + 1}, format="torch").collate())
    check_operator(fp.from_sequence(TABLE.to_pylist()).batch(2).map_columns(doubled))
    assert check_operator(batches(TABLE[:0]).map_columns(doubled)) == []


@pytest.mark.parametrize("format", ["numpy", "arrow", "torch"])
@pytest.mark.parametrize("stored", ["columns", "lists"])
def test_batches_of_columns_and_lists_give_the_same(format: Any, stored: str) -> None:
    pipe = NUMBERS if stored == "columns" else NUMBERS.map(lambda row: row)
    seen: list[Any] = []

    def function(columns: Any) -> Any:
        seen.append(columns)
        return columns

    result = pipe.batch(5).map_columns(function, format=format)[0]
    assert same(list(result), list(NUMBERS))
    expected = {"numpy": dict, "arrow": pa.RecordBatch, "torch": dict}
    kinds = {"numpy": np.ndarray, "arrow": pa.Array, "torch": torch.Tensor}
    assert type(seen[0]) is expected[format]
    assert all(isinstance(seen[0][name], kinds[format]) for name in ("x", "y"))


def test_arrays() -> None:
    seen: dict[str, Any] = {}

    def function(columns: Any) -> Any:
        seen.update(columns)
        return {
            "n": columns["n"][:2] / 2,
            "t": np.array(["x", None], object),
            "u": np.array(["p", "q"]),
            "at": np.array(["2024-01-01", "2024-01-02"], "datetime64[s]"),
            "l": [[1], None],
        }

    batch = batches().map_columns(function)[0]
    assert seen["t"].tolist() == ["a", None, "c"]
    assert [list(item) for item in seen["l"]] == [[], [1], [2, 2]]
    assert seen["b"].dtype == bool and seen["at"].dtype == "datetime64[us]"
    assert seen["c"].tolist() == ["u", "v", "u"]
    assert not any(array.flags.writeable for array in seen.values())
    assert list(batch) == [
        {"n": 0.0, "t": "x", "u": "p", "at": datetime.datetime(2024, 1, 1), "l": [1]},
        {"n": 0.5, "t": None, "u": "q", "at": datetime.datetime(2024, 1, 2), "l": None},
    ]


def test_tensors_can_be_written_to() -> None:
    source = np.arange(4)

    def function(columns: Any) -> Any:
        columns["x"] += 1
        return {"x": columns["x"], "half": columns["x"].half().requires_grad_(), "t": ["a"] * 4}

    pipe = fp.from_arrays({"x": source}).batch(4).map_columns(function, format="torch")
    assert rows(pipe)[3] == rows(pipe)[3] == {"x": 4, "half": 4.0, "t": "a"}
    assert source.tolist() == [0, 1, 2, 3]
    assert pipe.collate()[0]["half"].dtype == torch.float16


WRONG: dict[str, tuple[Any, Function, str]] = {
    "no dict": ("numpy", lambda c: c["n"], "must return a dict of columns by name but returned a value of type ndarr"),
    "nothing": ("numpy", lambda c: None, "must return a dict of columns by name but returned a value of type None"),
    "no columns": ("numpy", lambda c: {}, "must return a dict of columns by name but returned an empty dict"),
    "lengths": ("numpy", lambda c: {"a": c["n"], "b": c["n"][1:]}, "of one length but 'a' has 3 rows and 'b' has 2"),
    "a scalar": ("numpy", lambda c: {"a": c["n"].sum()}, "field `a`: .* for each row but returned a value of type int"),
    "an array without axes": ("numpy", lambda c: {"a": np.array(1)}, "field `a`: .* with a value for each row but"),
    "objects": ("numpy", lambda c: {"a": np.array([object()] * 3)}, "field `a`: its values cannot form a column"),
    "a name that is not a string": ("numpy", lambda c: {1: c["n"]}, "the name of a column must be a string but got: 1"),
    "bfloat16": ("torch", lambda c: {"a": c["n"].bfloat16()}, "field `a`: .*BFloat16; convert the tensor"),
    "a dict for a batch": ("arrow", lambda b: {"n": b["n"]}, "must return a RecordBatch but returned a value of type"),
    "one name twice": (
        "arrow",
        lambda b: pa.RecordBatch.from_arrays([b["n"], b["n"]], ["n", "n"]),
        "must return columns of different names but returned 'n' twice",
    ),
}


@pytest.mark.parametrize(("format", "function", "message"), WRONG.values(), ids=WRONG.keys())
def test_results_that_are_not_columns_are_errors(format: Any, function: Function, message: str) -> None:
    pipe = batches(TABLE.select(["n", "b"])).map_columns(function, format=format)
    with pytest.raises(DataError, match=message) as caught:
        list(pipe)
    assert "`.map_columns(" in str(caught.value) and __file__ in str(caught.value)
    assert "in the batch that begins at from_table(Table), row 1" in str(caught.value)


def test_an_error_of_the_function_names_the_row() -> None:
    pipe = batches().map_columns(lambda c: c["none"])
    with pytest.raises(RowError, match=r"failed with KeyError: 'none'\n  on from_table\(Table\), row 1\n  at "):
        list(pipe)


def test_arguments() -> None:
    with pytest.raises(ArgumentError, match="`format` must be one of 'numpy', 'arrow', 'torch' but got: 'pandas'"):
        batches().map_columns(dict, format="pandas")
    with pytest.raises(ArgumentTypeError, match="`function` must be callable"):
        batches().map_columns(None)
    assert repr(batches().map_columns(dict, format="arrow")).endswith(".map_columns(dict, format='arrow')")
