"""`collate(nulls="nan")`, and nulls that cannot become NaN."""

from __future__ import annotations

import pyarrow as pa
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError

from .collating import Runs, here_and_sent


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


NAN = float("nan")
NULLS: dict[str, tuple[pa.Array, torch.Tensor]] = {
    "int64": (pa.array([1, None, 3]), doubles(1, NAN, 3)),
    "uint8": (pa.array([None, 2, 3], pa.uint8()), doubles(NAN, 2, 3)),
    "bool": (pa.array([True, None, False]), doubles(1, NAN, 0)),
    "float64": (pa.array([None, 0.5, NAN]), doubles(NAN, 0.5, NAN)),
    "float32": (pa.array([1, None, 3], pa.float32()), torch.tensor([1, NAN, 3])),
    "float16": (pa.array([1, None, 3], pa.float16()), torch.tensor([1, NAN, 3], dtype=torch.float16)),
    "nothing but nulls": (pa.nulls(3), doubles(NAN, NAN, NAN)),
    "nothing but nulls of float32": (pa.nulls(3, pa.float32()), torch.full((3,), NAN)),
    "dictionary": (pa.array([5, None, 5]).dictionary_encode(), doubles(5, NAN, 5)),
    "no nulls": (pa.array([1, 2, 3]), torch.tensor([1, 2, 3])),
    "lists": (pa.array([[1, None], [None, 4], [5, 6]]), doubles(1, NAN, NAN, 4, 5, 6).reshape(3, 2)),
    "lists of one length": (
        pa.array([[1, None], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
        torch.tensor([[1, NAN], [3, 4], [5, 6]]),
    ),
    "tensors": (
        pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.int16(), (2, 1)), pa.array([[1, 2], [3, None]], pa.list_(pa.int16(), 2))
        ),
        doubles(1, 2, 3, NAN).reshape(2, 2, 1),
    ),
}


def assert_equal_with_nan(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@here_and_sent
@pytest.mark.parametrize(("column", "expected"), NULLS.values(), ids=NULLS.keys())
def test_nan_in_place_of_nulls(column: pa.Array, expected: torch.Tensor, run: Runs) -> None:
    pipe = fp.from_table(pa.table({"x": column, "in": pa.StructArray.from_arrays([column], ["a"])})).batch(3)
    (batch,) = run(pipe.collate(nulls="nan"))
    assert_equal_with_nan(batch["x"], expected)
    assert_equal_with_nan(batch["in"]["a"], expected)
    if column.null_count or column.type.id != pa.int64().id:
        batch["x"].zero_()  # it shares no memory
        assert_equal_with_nan(run(pipe.collate(nulls="nan"))[0]["x"], expected)


@here_and_sent
@pytest.mark.parametrize("name", ["int64", "bool", "float64", "nothing but nulls", "no nulls"])
def test_nulls_are_the_same_in_lists_of_rows(name: str, run: Runs) -> None:
    column, expected = NULLS[name]
    rows = fp.from_sequence([{"x": value} for value in column.to_pylist()]).batch(3)
    assert_equal_with_nan(run(rows.collate(nulls="nan"))[0]["x"], expected)


NOT_NAN: dict[str, tuple[pa.Array, str]] = {
    "a list": (pa.array([[1], None]), r"field `x`: null at row 2 .* before `.batch`\n"),
    "a struct": (pa.array([{"a": 1}, None]), r"field `x`: null at row 2 .* before `.batch`\n"),
    "a time": (
        pa.array([0, None], pa.timestamp("s")),
        r"field `x`: a column of type timestamp\[s\] cannot become a tensor",
    ),
    "beside an int of 54 bits": (pa.array([2**53 + 1, None]), r"field `x`: .* beyond 2\*\*53"),
}


@here_and_sent
@pytest.mark.parametrize(("column", "message"), NOT_NAN.values(), ids=NOT_NAN.keys())
def test_nulls_that_cannot_become_nan(column: pa.Array, message: str, run: Runs) -> None:
    with pytest.raises(DataError, match=message):
        run(fp.from_table(pa.table({"x": column})).batch(2).collate(nulls="nan"))


def test_nulls_is_checked() -> None:
    pipe = fp.from_sequence([1, None]).batch(2)
    with pytest.raises(ArgumentError, match=r"`nulls` must be one of 'error', 'nan' but got: 'zero'"):
        pipe.collate(nulls="zero")  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="`nulls` must be left out if `function` is given but got: 'nan'"):
        pipe.collate(list, nulls="nan")  # type: ignore[call-overload]
    assert repr(pipe.collate(nulls="nan")).endswith(".batch(2).collate(nulls='nan')")
