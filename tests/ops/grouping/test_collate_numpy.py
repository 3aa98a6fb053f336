"""`collate(format="numpy")`: the rules of `collate`, with arrays in place of tensors; it needs no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError

from ...support.examples import examples
from .collating import Runs, as_sent, collated, here_and_sent
from .test_collate import CASES, Stackable, assert_same

PROMOTED = {"ints and floats", "arrays of two dtypes", "tensors of two dtypes"}
"""Cases in which dtypes differ, which torch and NumPy promote by other rules."""


def assert_like(ours: Any, tensors: Any, *, dtypes: bool = True) -> None:
    """Both are the same but for arrays where the other has tensors."""

    def check(array: Any, tensor: torch.Tensor) -> None:
        assert type(array) is np.ndarray and array.flags.writeable
        np.testing.assert_array_equal(array, tensor.numpy())
        assert not dtypes or array.dtype == tensor.numpy().dtype

    assert_same(ours, tensors, check)


@here_and_sent
@pytest.mark.parametrize("name", [name for name in CASES if name != "bfloat16"])
def test_gives_what_tensors_hold(name: str, run: Runs) -> None:
    rows = CASES[name]
    assert_like(collated(rows, run, format="numpy"), collated(rows, run), dtypes=name not in PROMOTED)


columns = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from(["i2", "f4", "text", "list", "struct", "bool"]), min_size=1
)


@settings(max_examples=examples(300))
@given(columns, st.integers(1, 12), st.integers(1, 5))
def test_tables_dicts_and_workers_agree(kinds: dict[str, str], count: int, size: int) -> None:
    values: dict[str, pa.Array] = {
        "i2": pa.array(range(count), pa.int16()),
        "f4": pa.array([i / 2 for i in range(count)], pa.float32()),
        "text": pa.array([str(i) for i in range(count)]),
        "list": pa.array([[i, i + 1] for i in range(count)]),
        "struct": pa.array([{"u": i, "v": [0.5]} for i in range(count)]),
        "bool": pa.array([i % 3 == 0 for i in range(count)]),
    }
    rows = fp.from_table(pa.table({name: values[kind] for name, kind in kinds.items()})).batch(size)
    expected = list(rows.collate())
    for run in (list, as_sent):
        for ours, theirs in zip(run(rows.collate(format="numpy")), expected, strict=True):
            assert_like(ours, theirs)


WRONG: dict[str, tuple[list[Any], str]] = {
    "shapes": ([np.ones(1), np.ones(2)], r"shapes .* differ at row 2 of the batch; .* or give `.collate` a function$"),
    "null": ([1, None], "null at row 2 of the batch, and an array of numbers has no null"),
    "text": ([np.array(["a"]), np.array(["b"])], "arrays of dtype <U1 cannot become an array of numbers"),
    "text among numbers": ([np.array([1]), np.array(["b"])], "arrays of dtype .* cannot become an array of numbers"),
    "times": ([np.datetime64("2020")] * 2, "values of type datetime64 cannot become an array of numbers"),
    "objects": ([object()] * 2, "values of type object cannot become an array of numbers"),
    "an int of 65 bits": ([1, 2**64], "values of type int cannot become an array of numbers"),
    "a number among arrays": ([np.ones(1), 1.0], "types ndarray and float differ at row 2"),
    "bfloat16": ([torch.ones(1, dtype=torch.bfloat16)] * 2, "BFloat16"),
    "sparse tensors": ([torch.ones(2).to_sparse()] * 2, "Sparse layout"),
    "objects of tensors": ([Stackable(torch.ones(1))] * 2, "a Stackable is made of tensors, .* leave out `format`"),
}


@here_and_sent
@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG.keys())
def test_values_that_do_not_fit(rows: list[Any], message: str, run: Runs) -> None:
    with pytest.raises(DataError, match="field `x`: ") as caught:
        collated([{"x": row} for row in rows], run, format="numpy")
    first_line = str(caught.value).splitlines()[0]
    import re

    assert re.search(message, first_line), first_line


def test_the_argument_is_checked() -> None:
    pipe: Any = fp.from_sequence([1]).batch(1)
    with pytest.raises(ArgumentError, match="`format` must be one of 'torch', 'numpy' but got: 'jax'"):
        pipe.collate(format="jax")
    with pytest.raises(ArgumentError, match="`format` must be left out if `function` is given but got: 'numpy'"):
        pipe.collate(list, format="numpy")
    assert repr(pipe.collate(format="numpy")).endswith(".batch(1).collate(format='numpy')")


def test_integers_that_only_floats_could_hold_are_refused() -> None:
    ids = fp.from_sequence([2**53 + 1, 2**63]).batch(2)
    with pytest.raises(fp.DataError, match="no dtype of integers holds all of these, and floats would round them"):
        list(ids.collate(format="numpy"))
    assert fp.from_sequence([2**63, 2**64 - 1]).batch(2).collate(format="numpy")[0].tolist() == [2**63, 2**64 - 1]


@pytest.mark.parametrize(("rows", "dtypes"), [([1, 0.5], ["float32", "float64"]), ([0.5, 1], ["float64"] * 2)])
def test_ints_beside_floats_become_floats_as_documented(rows: list[float], dtypes: list[str]) -> None:
    batch = fp.from_sequence(rows).batch(2)
    assert [str(batch.collate()[0].dtype), str(batch.collate(format="numpy")[0].dtype)] == [
        f"torch.{dtypes[0]}",
        dtypes[1],
    ]
