"""`read_zarr`: arrays of formats 2 and 3, in chunks and shards, in many processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, SourceError
from feedpipe.testing import check_operator, same

from ..loading.resumes import result_in_fork

X, Y = np.arange(84.0).reshape(21, 2, 2), np.arange(21)


def write(path: object, array: Any = X, **options: Any) -> Any:
    import zarr

    values = np.asarray(array)
    options = {"chunks": values.shape, **options}
    stored = zarr.create_array(str(path), shape=values.shape, dtype=values.dtype, overwrite=True, **options)
    stored[...] = values
    return path


OPTIONS: dict[str, dict[str, Any]] = {
    "one chunk": {},
    "format 2": {"zarr_format": 2, "chunks": (4, 1, 2)},
    "chunks": {"chunks": (5, 2, 1)},
    "shards": {"chunks": (2, 2, 2), "shards": (6, 2, 2)},
    "without compression": {"chunks": (4, 2, 2), "compressors": None},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_table(tmp_path: Path, options: dict[str, Any]) -> None:
    pipe = fp.read_zarr({"x": write(tmp_path / "x", X, **options), "y": write(tmp_path / "g.zarr/y", Y, chunks=(3,))})
    rows = check_operator(pipe, samples=6)
    assert same(rows, list(fp.from_arrays({"x": X, "y": Y})))
    assert pipe.batch(4).collate()[1]["x"].tolist() == X[4:8].tolist()
    assert sorted(row["y"] for row in pipe.shuffle()) == list(range(21))


@pytest.mark.parametrize("dtype", ["|u1", "|b1", "<f2", ">f8", "<i4", "<c16"])
def test_types(tmp_path: Path, dtype: str) -> None:
    array = np.arange(12).reshape(6, 2).astype(dtype)
    rows = list(fp.read_zarr({"x": write(tmp_path / "x", array, chunks=(4, 2))}))
    assert same(rows, list(fp.from_arrays({"x": array.astype(array.dtype.newbyteorder("="))})))


def test_arrays_of_a_column_are_joined(tmp_path: Path) -> None:
    paths = [write(tmp_path / str(k), X[7 * k : 7 * k + 7], chunks=(k + 2, 2, 2)) for k in range(3)]
    pipe = fp.read_zarr({"x": paths, "y": write(tmp_path / "y", Y)})
    assert same(check_operator(pipe, samples=4), list(fp.from_arrays({"x": X, "y": Y})))
    with pytest.raises(fp.RowError, match=r"/1, row 3"):
        list(fp.read_zarr({"x": paths}).map(lambda row: 1 // int(row["x"][0, 0] - X[9, 0, 0])))


def test_an_array_that_is_open_before_a_fork_is_opened_again(tmp_path: Path) -> None:
    pipe = fp.read_zarr({"y": write(tmp_path / "y", Y, chunks=(4,))})
    assert pipe[3]["y"] == 3
    assert result_in_fork(lambda: [row["y"] for row in pipe]) == Y.tolist()


def test_a_state_belongs_to_arrays_of_this_form(tmp_path: Path) -> None:
    loader = fp.Loader(fp.read_zarr({"y": write(tmp_path / "y", Y)}))
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(fp.FeedpipeError, match="read_zarr"):
        fp.Loader(fp.read_zarr({"y": write(tmp_path / "y", Y[:20])})).load_state_dict(state)


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    x, y = write(tmp_path / "x"), write(tmp_path / "y", Y[:20])
    write(tmp_path / "dates", np.array(["2024-01-01"], "M8[s]"))
    write(tmp_path / "single", np.float64(3))
    with pytest.raises(DataError, match=r"'x' has 21 rows \(.*/x\) and 'y' 20 \(.*/y\)") as caught:
        len(fp.read_zarr({"x": x, "y": y}))
    assert __file__ in str(caught.value)
    with pytest.raises(DataError, match="files of one column must be alike but .*/x has rows of shape"):
        len(fp.read_zarr({"x": [x, y]}))
    with pytest.raises(DataError, match=r"dates has dtype datetime64\[s\].*save dates as numbers"):
        len(fp.read_zarr({"x": tmp_path / "dates"}))
    with pytest.raises(DataError, match="single must have an axis"):
        len(fp.read_zarr({"x": tmp_path / "single"}))
    with pytest.raises(SourceError, match="none cannot be opened as a Zarr array: ") as caught:
        len(fp.read_zarr({"x": tmp_path / "none"}))
    assert __file__ in str(caught.value)


def test_arguments() -> None:
    for paths, error, message in (
        ("x", ArgumentTypeError, "`paths` must be a dict by names of columns.* but got: 'x'"),
        ({}, ArgumentError, "at least one column"),
        ({3: "a"}, ArgumentTypeError, "must have names of columns but got: 3"),
        ({"x": []}, ArgumentError, r"must hold an array for column 'x' but got: \[\]"),
        ({"x": 3}, ArgumentTypeError, "must hold paths of arrays but got: 3"),
    ):
        with pytest.raises(error, match=message) as caught:
            fp.read_zarr(paths)  # type: ignore[arg-type]
        assert __file__ in str(caught.value)
    assert repr(fp.read_zarr({"x": "a", "y": ["b", "c"]})) == "fp.read_zarr({'x': 'a', 'y': ['b', 'c']})"
