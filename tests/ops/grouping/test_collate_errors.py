"""Errors of `collate` name the field and the row of the batch, and come after the batches before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import DataError

from .collating import Plain, Runs, collated, here_and_sent, table

WRONG: dict[str, tuple[Any, str]] = {
    "shapes": (
        [{"x": np.ones(3)}, {"x": np.ones(3)}, {"x": np.ones(4)}],
        r"field `x`: shapes \(3,\) and \(4,\) differ at row 3",
    ),
    "shapes of equal size": ([np.ones((3, 2)), np.ones((5, 2)), np.ones((1, 2))], r"shapes .* differ at row 2"),
    "shapes of tensors": ([{"x": torch.ones(1)}, {"x": torch.ones(2)}], r"field `x`: shapes .* differ at row 2"),
    "a missing field": ([{"x": 1}, {"y": 1}], r"field `x`: missing at row 2"),
    "None": ([{"x": 1}, {"x": None}], r"field `x`: null at row 2 of the batch, .* `.collate\(nulls=\"nan\"\)`"),
    "None among floats": ([{"x": 1.0}, {"x": None}], r"field `x`: null at row 2"),
    "None among NumPy's": ([{"x": np.int8(1)}, {"x": None}], r"field `x`: null at row 2"),
    "None first": ([{"x": None}, {"x": 1}], r"field `x`: null at row 1"),
    "nothing but None": ([{"x": None}, {"x": None}], r"field `x`: null at row 1"),
    "None for a tuple": ([{"x": (1,)}, {"x": None}], r"field `x`: types tuple and NoneType differ at row 2"),
    "None for an array": ([{"x": None}, {"x": np.ones(2)}], r"field `x`: .*NoneType"),
    "None among numbers and text": ([{"x": 1}, {"x": None}, {"x": "a"}], r"field `x`: Could not convert 'a'"),
    "lengths": ([{"x": (1, [1])}, {"x": (1, [1, 2])}], r"field `x.1`: lengths 1 and 2 differ at row 2"),
    "an object": ([object(), object()], r"object"),
    "a dataclass among others": ([Plain(1), 2], r"types Plain and int differ at row 2"),
    "fields of a dataclass": ([Plain(1), Plain(None)], r"field `x`: null at row 2"),  # type: ignore[arg-type]
    "text in an array": ([{"x": np.array(["a"])}] * 2, r"field `x`: arrays of dtype <U1 cannot become a tensor"),
    "objects in an array": ([{"x": np.array([None])}] * 2, r"field `x`: arrays of dtype object cannot become a tensor"),
    "an array among numbers": ([{"x": np.ones(2)}, {"x": 1.0}], r"field `x`: types ndarray and float differ at row 2"),
    "an int of 65 bits": ([{"x": 1}, {"x": 2**64}], r"field `x`: Overflow"),
    "sparse tensors": (
        [{"x": torch.ones(n).to_sparse()} for n in (2, 3)],
        r"field `x`: shapes torch.Size\(\[2\]\) and torch.Size\(\[3\]\) differ at row 2",
    ),
    "nested tensors": (
        [{"x": torch.nested.nested_tensor([torch.ones(1)], layout=torch.jagged)}] * 2,
        r"field `x`: nested tensors cannot be stacked",
    ),
}


@here_and_sent
@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG.keys())
def test_rows_that_do_not_fit_are_named(rows: list[Any], message: str, run: Runs) -> None:
    with pytest.raises(DataError, match=message) as caught:
        collated(rows, run)
    assert "`.collate()`" in str(caught.value)
    assert "batch that begins at from_sequence, row 1" in str(caught.value)
    assert "collating.py" in str(caught.value)  # where the chain is written


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_compressed_sparse_tensors_are_named_with_their_repair() -> None:
    rows = fp.from_sequence([torch.eye(2)] * 2).map(lambda x: {"x": x.to_sparse_csr()})
    with pytest.raises(DataError, match=r"field `x`: tensors of the layout sparse_csr cannot .* `.to_sparse_coo\(\)`"):
        list(rows.batch(2).collate())
    repaired = rows.map(lambda row: {"x": row["x"].to_sparse_coo()})
    assert torch.equal(repaired.batch(2).collate()[0]["x"].to_dense(), torch.stack([torch.eye(2)] * 2))


WRONG_COLUMNS: dict[str, tuple[Any, str]] = {
    "null": (pa.array([1, 2, None]), r"field `x`: null at row 3 of the batch"),
    "null in a list": (pa.array([[1, 2], [3, None], [4, 5]]), r"field `x`: null at row 2 of the batch"),
    "null for a list": (pa.array([[1], None, [4]]), r"field `x`: null at row 2 of the batch"),
    "null in a struct": (pa.array([{"a": 1}, {"a": None}, {"a": 1}]), r"field `x.a`: null at row 2 of the batch"),
    "only nulls": (pa.nulls(3), r"field `x`: null at row 1"),
    "lengths": (pa.array([[1], [2], [3, 4]]), r"field `x`: lengths 1 and 2 differ at row 3"),
    "times": (
        pa.array([0, 1, 2], pa.timestamp("us")),
        r"field `x`: a column of type timestamp\[us\] cannot become a tensor",
    ),
}


@here_and_sent
@pytest.mark.parametrize(("column", "message"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS.keys())
def test_columns_that_do_not_fit_are_named(column: pa.Array, message: str, run: Runs) -> None:
    with pytest.raises(DataError, match=message):
        run(table({"x": column}))


def test_the_batches_before_a_failing_one_come_first() -> None:
    batches = iter(table({"x": pa.array([1, 2, None, 4])}, size=1))
    assert next(batches)["x"].tolist() == [1]
    assert next(batches)["x"].tolist() == [2]
    for _ in range(2):
        with pytest.raises(DataError, match="null at row 1 of the batch"):
            next(batches)


@pytest.mark.parametrize("rows", [[{"x": 1}], [1], ["text"]])
def test_an_element_that_is_not_a_batch_is_an_error(rows: list[Any]) -> None:
    with pytest.raises(DataError, match=r"must be a batch of rows .* put `.batch\(n\)` before it"):
        list(fp.from_sequence(rows).collate())
