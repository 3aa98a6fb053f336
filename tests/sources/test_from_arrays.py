"""`from_arrays`: rows of NumPy arrays and torch tensors, without a copy."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, RowError, SourceError
from feedpipe.testing import check_operator


def test_rows_are_dicts_of_scalars_and_arrays() -> None:
    pipe = fp.from_arrays({"x": np.arange(6).reshape(3, 2), "y": np.array([1.5, 2.5, 3.5], np.float32)})
    assert len(pipe) == 3
    row = pipe[1]
    assert row["x"].tolist() == [2, 3]
    assert type(row["y"]) is float
    assert [r["y"] for r in pipe] == [1.5, 2.5, 3.5]


def test_nothing_is_copied_before_a_column_is_read() -> None:
    array = np.arange(1000.0).reshape(500, 2)
    pipe = fp.from_arrays({"x": array})
    assert np.shares_memory(pipe[7]["x"], array)
    assert np.shares_memory(pipe.batch(10)[3].columns["x"], array)
    shuffled = pipe.shuffle().batch(10)[3]
    assert np.shares_memory(shuffled._columns_and_selection[0]["x"], array)  # positions, and the source itself
    assert not np.shares_memory(shuffled.columns["x"], array)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_function_that_writes_into_a_row_fails(shuffled: bool) -> None:
    array = np.zeros((4, 2))

    def write(row: Any) -> Any:
        row["x"] += 1
        return row

    pipe = fp.from_arrays({"x": array})
    with pytest.raises(RowError, match="read-only"):
        list((pipe.shuffle() if shuffled else pipe).map(write))
    assert array.sum() == 0
    assert array.flags.writeable


def test_a_foreign_byte_order() -> None:
    pipe = fp.from_arrays({"x": np.arange(4, dtype=">u4").reshape(2, 2), "y": np.arange(2, dtype=">f8")})
    for rows in (pipe, pipe.shuffle()):
        batch = rows.batch(2)[0]
        assert all(column.dtype.isnative for column in batch.columns.values())
    assert batch.arrow.num_rows == 2
    assert pipe[1]["x"].tolist() == [2, 3]


def test_a_mapped_file_stays_on_disk_and_travels_as_its_path(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(200_000.0).reshape(100_000, 2))
    array = np.load(tmp_path / "x.npy", mmap_mode="r")
    pipe = fp.from_arrays({"x": array, "part": array[10:, 1], "y": np.zeros(100_000)[:99_990]} | {"x": array[:-10]})
    assert np.shares_memory(pipe[3]["x"], array)
    sent = cloudpickle.dumps(fp.from_arrays({"x": array[:-10], "part": array[10:, 1]}))
    assert len(sent) < 10_000
    for index in (0, 17, 99_989):
        row, there = pipe[index], pickle.loads(sent)[index]
        assert row["x"].tolist() == there["x"].tolist()
        assert row["part"] == there["part"]
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(sent)[0]["x"][0] = 1


def test_the_error_of_a_missing_mapped_file_names_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(5))
    sent = cloudpickle.dumps(fp.from_arrays({"x": np.load(tmp_path / "x.npy", mmap_mode="r")}))
    (tmp_path / "x.npy").unlink()
    with pytest.raises(SourceError, match=r"x\.npy cannot be mapped"):
        pickle.loads(sent)


def test_keeps_the_law_of_cursors() -> None:
    pipe = fp.from_arrays({"x": np.arange(38).reshape(19, 2), "s": np.arange(19).astype(str)})
    check_operator(pipe)
    check_operator(pipe.shuffle(window=6))
    check_operator(pipe.shuffle().zip(pipe).concat(pipe.zip(pipe)))
    check_operator(fp.from_arrays({"x": np.zeros((0, 3))}))


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({}, ArgumentError, "at least one array"),
        ([np.zeros(3)], ArgumentTypeError, "must be a dict of arrays, .* got: list"),
        ({"x": [1, 2]}, ArgumentTypeError, "`x` must be a NumPy array or a tensor but got: list"),
        ({1: np.zeros(3)}, ArgumentTypeError, "names of `arrays` must be of type str but got: 1"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, ArgumentError, "`x` has 3 rows and `y` 4"),
        ({"x": np.array(1.0)}, ArgumentError, "`x` must have at least one axis"),
        ({"x": np.array([{}, None])}, ArgumentTypeError, "`x` has dtype object.*np.stack"),
        ({"x": np.array(["2024-01-01"], "M8[D]")}, ArgumentTypeError, "`x` has dtype datetime64.*from_table"),
        ({"x": np.zeros(2, "i4,f4")}, ArgumentTypeError, "its fields one by one"),
        ({"x": np.ma.masked_array([1, 2], [0, 1])}, ArgumentTypeError, "`x` is a masked array"),
    ],
)
def test_bad_arguments(arrays: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        fp.from_arrays(arrays)
    assert __file__ in str(caught.value)


def test_tensors_that_numpy_cannot_share() -> None:
    import torch

    for tensor, message in (
        (torch.zeros(2, dtype=torch.bfloat16), "`x` is a tensor that NumPy cannot read: .*BFloat16"),
        (torch.zeros(2, 2).to_sparse(), r"`x` is .*Use Tensor\.to_dense\(\)"),
        (torch.zeros(2, device="meta"), "`x` is a tensor that NumPy cannot read: .*meta"),
    ):
        with pytest.raises(ArgumentTypeError, match=message) as caught:
            fp.from_arrays({"x": tensor})
        assert __file__ in str(caught.value)
