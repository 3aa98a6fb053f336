"""`collate(ragged="nested")`: nested tensors of values that differ in their first dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError

from ...support.examples import examples
from .collating import Runs, as_sent, collated, here_and_sent, table


def parts(tensor: torch.Tensor) -> list[Any]:
    """The rows of a nested tensor."""
    assert tensor.is_nested and tensor.layout is torch.jagged
    return [part.tolist() for part in tensor.unbind()]


LISTS: dict[str, Any] = {
    "arrays": [np.arange(n, dtype=np.int16) for n in (2, 0, 3)],
    "arrays of one length": [np.ones(2, np.float32)] * 3,
    "arrays of more dimensions": [np.full((n, 2), n, np.float32) for n in (1, 3)],
    "arrays of two dtypes": [np.ones(1, np.int32), np.full(2, 0.5)],
    "an empty array of another dtype": [np.zeros(0), np.arange(2)],
    "a foreign byte order": [np.arange(n, dtype=">i4") for n in (1, 2)],
    "tensors": [torch.arange(n) for n in (3, 1)],
    "tensors without items": [torch.zeros(0), torch.zeros(0)],
    "tensors of bfloat16": [torch.ones(n, dtype=torch.bfloat16) for n in (3, 1)],
    "lists of ints": [[1, 2], [], [3]],
    "lists of floats": [[1.5], [2.0, 3.0]],
    "lists of bools": [[True], [True, False]],
    "lists of lists": [[[1, 2]], [[3, 4], [5, 6]]],
    "one row": [[1, 2, 3]],
}


@here_and_sent
@pytest.mark.parametrize("values", LISTS.values(), ids=LISTS.keys())
def test_values_of_different_lengths(values: list[Any], run: Runs) -> None:
    expected = [value.tolist() if hasattr(value, "tolist") else value for value in values]
    assert parts(collated(values, run, ragged="nested")) == expected
    whole = collated([{"x": value, "n": 1, "in": (value, "a")} for value in values], run, ragged="nested")
    assert parts(whole["x"]) == parts(whole["in"][0]) == expected
    assert whole["n"].shape == (len(values),) and whole["in"][1] == ("a",) * len(values)


COLUMNS: dict[str, pa.Array] = {
    "ints": pa.array([[1, 2], [], [3]], pa.list_(pa.int16())),
    "large": pa.array([[1.5], [2.5, 3.5]], pa.large_list(pa.float32())),
    "one length": pa.array([[1], [2]]),
    "bools": pa.array([[True], [False, True]]),
    "of lists of one size": pa.array([[[1, 2]], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.int8(), 2))),
    "of lists": pa.array([[[1, 2]], [[3, 4], [5, 6]]]),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([[1, 2], [3]])),
}


@here_and_sent
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS.keys())
def test_columns_of_lists(column: pa.Array, run: Runs) -> None:
    grid = np.arange(2 * len(column)).reshape(-1, 2)
    pipe = table(
        {"x": column, "in": pa.StructArray.from_arrays([column], ["a"]), "n": range(len(column))}, ragged="nested"
    )
    (whole,) = run(pipe)
    assert parts(whole["x"]) == parts(whole["in"]["a"]) == column.to_pylist()
    assert whole["n"].tolist() == [*range(len(column))]
    twice = fp.from_table(pa.table({"x": pa.concat_arrays([column, column])})).batch(len(column))
    assert parts(run(twice.collate(ragged="nested"))[1]["x"]) == column.to_pylist()  # a slice
    fixed = fp.from_arrays({"g": grid}).batch(len(column)).collate(ragged="nested")
    assert run(fixed)[0]["g"].tolist() == grid.tolist()  # its type has one size


@here_and_sent
def test_windows_of_different_lengths(run: Runs) -> None:
    grids = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(28).reshape(7, 2, 2))
    columns = pa.table({"x": range(7), "g": grids, "t": list("abcdefg")})
    windows = fp.from_table(columns).batch(3).batch(3)
    (whole,) = run(windows.collate(ragged="nested"))
    assert parts(whole["x"]) == [[0, 1, 2], [3, 4, 5], [6]]
    assert [part.shape for part in whole["g"].unbind()] == [(3, 2, 2), (3, 2, 2), (1, 2, 2)]
    assert whole["t"] == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    arrays = fp.from_arrays({"x": np.arange(10).reshape(5, 2)}).batch(2).batch(3).collate(ragged="nested")
    assert parts(run(arrays)[0]["x"]) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9]]]


WRONG: dict[str, tuple[list[Any], str]] = {
    "other shapes": (
        [np.ones((1, 2)), np.ones((2, 3))],
        r"shapes after the first dimension \(2,\) and \(3,\) differ at row 2",
    ),
    "dimensions": ([np.ones(1), np.ones((2, 3))], r"dimensions 1 and 2 differ at row 2"),
    "shapes of tensors": (
        [torch.ones(1, 2), torch.ones(2, 3)],
        "Sizes of tensors must match|shapes .* differ at row 2",
    ),
    "inner lists": ([[[1], [2, 3]]], "lengths 1 and 2 differ at row 1"),
    "text": ([np.array(["a"]), np.array(["a", "b"])], "arrays of dtype <U1 cannot become a tensor"),
    "objects": ([[object()], []], "Could not convert"),
    "a number among lists": ([[1], 2], "."),
    "an array among tensors": ([torch.ones(1), np.ones(2)], "."),
}


@here_and_sent
@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG.keys())
def test_values_that_cannot_be_nested(rows: list[Any], message: str, run: Runs) -> None:
    with pytest.raises(DataError, match=f"field `x`: ({message})"):
        collated([{"x": row} for row in rows], run, ragged="nested")


def test_the_arguments_are_checked() -> None:
    pipe: Any = fp.from_sequence([[1], [2, 3]]).batch(2)
    with pytest.raises(ArgumentError, match="`ragged` must be one of 'error', 'nested' but got: 'pad'"):
        pipe.collate(ragged="pad")
    with pytest.raises(ArgumentError, match=r"`ragged\['x'\]` must be one of 'error', 'nested' but got: True"):
        pipe.collate(ragged={"x": True})
    with pytest.raises(ArgumentTypeError, match="`ragged` must have names of fields but has: 1"):
        pipe.collate(ragged={1: "nested"})
    with pytest.raises(ArgumentError, match="`ragged` must be left out if `function` is given but got: 'nested'"):
        pipe.collate(list, ragged="nested")
    with pytest.raises(ArgumentError, match='`ragged="nested"` needs `format="torch"`'):
        pipe.collate(ragged="nested", format="numpy")
    assert repr(pipe.collate(ragged="nested")).endswith(".batch(2).collate(ragged='nested')")


numbers = st.lists(st.integers(-5, 5), max_size=4)


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.lists(numbers, min_size=1, max_size=9), st.integers(1, 4))
def test_rows_columns_and_workers_agree(lists: list[list[int]], size: int) -> None:
    column = pa.array(lists, pa.list_(pa.int64()))
    expected = [lists[start : start + size] for start in range(0, len(lists), size)]
    pipes = [
        fp.from_sequence([{"x": np.array(each, np.int64)} for each in lists]),
        fp.from_sequence([{"x": torch.tensor(each, dtype=torch.int64)} for each in lists]),
        fp.from_table(pa.table({"x": column})),
    ]
    for pipe in pipes:
        collating = pipe.batch(size).collate(ragged="nested")
        for run in (list, as_sent):
            assert [parts(batch["x"]) for batch in run(collating)] == expected
