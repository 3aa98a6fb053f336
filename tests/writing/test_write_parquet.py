from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError


def rows(count: int) -> fp.Pipe[dict[str, object]]:
    return fp.from_sequence(range(count)).map(lambda i: {"id": i, "square": i * i})


def entries(manifest: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(manifest).read_text().splitlines()[1:]]


def files(folder: Path) -> list[str]:
    """The names in a folder, without the place of a run that failed."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("_unfinished-"))


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    manifest = fp.write_parquet(rows(5000), tmp_path / "out", rows_per_file=1700, row_group_rows=500)
    assert manifest == f"{tmp_path}/out/_manifest.jsonl"
    assert files(tmp_path / "out") == ["_manifest.jsonl", *(f"part-0000{k}.parquet" for k in range(3))]
    read = fp.read_parquet(tmp_path / "out")
    assert list(read) == list(rows(5000))
    assert [entry["rows"] for entry in entries(manifest)] == [1700, 1700, 1600]
    meta = pq.read_metadata(tmp_path / "out" / "part-00000.parquet")
    assert [meta.row_group(k).num_rows for k in range(meta.num_row_groups)] == [500, 500, 500, 200]
    fp.verify(manifest)


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 25))
def test_files_and_row_groups(
    tmp_path_factory: pytest.TempPathFactory, count: int, per_file: int, per_group: int
) -> None:
    folder = tmp_path_factory.mktemp("out")
    manifest = fp.write_parquet(rows(count), folder, rows_per_file=per_file, row_group_rows=per_group)
    written = [pq.ParquetFile(folder / entry["path"]) for entry in entries(manifest)]
    assert [row for file in written for row in file.read().to_pylist()] == list(rows(count))
    sizes = [file.metadata.num_rows for file in written]
    assert all(size == per_file for size in sizes[:-1]) and all(0 < size <= per_file for size in sizes)
    for file in written:
        groups = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        assert all(group == per_group for group in groups[:-1]) and groups[-1] <= per_group
        file.close()


def test_a_file_is_full_after_file_size(tmp_path: Path) -> None:
    random = np.random.default_rng(7).integers(0, 256, (2000, 1000), np.uint8)
    manifest = fp.write_parquet(fp.from_arrays({"x": random}), tmp_path, file_size="300KB")
    sizes = [entry["bytes"] for entry in entries(manifest)]
    assert len(sizes) > 3
    assert all(300_000 <= size < 600_000 for size in sizes[:-1])


def test_workers_do_not_change_the_files_of_an_indexed_pipe(tmp_path: Path) -> None:
    one = fp.write_parquet(rows(5000), tmp_path / "one")
    two = fp.write_parquet(rows(5000), tmp_path / "two", workers=2)
    assert entries(one) == entries(two)


VALUES: dict[str, Any] = {
    "int": [1, None, 3],
    "float": [0.5, 1, None],
    "bool": [True, None, False],
    "text": ["a", None, ""],
    "bytes": [b"\0\xff", None, b""],
    "list": [[1, 2], [], None],
    "dict": [{"a": 1, "b": [0.5]}, {"a": None, "b": None}, None],
    "date": [datetime.date(2024, 2, 29), None, None],
    "time": [datetime.datetime(2024, 2, 29, 1, 2, 3), None, None],
    "nothing": [None, None, None],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back(tmp_path: Path, name: str) -> None:
    source = [{name: value} for value in VALUES[name]]
    fp.write_parquet(fp.from_sequence(source), tmp_path)
    assert list(fp.read_parquet(tmp_path)) == source


@pytest.mark.parametrize(
    "values",
    [
        [np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)],
        [np.arange(4), np.arange(4) * 2],
        [np.array([[True], [False]]), np.array([[False], [False]])],
        [np.zeros((2, 2), np.uint8).T, np.arange(8, dtype=np.uint8).reshape(2, 4)[:, ::2]],
        [np.arange(4).reshape(2, 2).astype("datetime64[us]"), np.arange(4, 8).reshape(2, 2).astype("datetime64[us]")],
        [np.arange(3).astype("timedelta64[ns]"), np.arange(3, 6).astype("timedelta64[ns]")],
    ],
)
def test_arrays_of_one_shape_come_back(tmp_path: Path, values: list[Any]) -> None:
    fp.write_parquet(fp.from_sequence([{"x": value} for value in values]), tmp_path)
    for row, value in zip(fp.read_parquet(tmp_path), values, strict=True):
        assert isinstance(row["x"], np.ndarray)
        assert row["x"].dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(row["x"], value)


@pytest.mark.parametrize(
    ("unit", "kind", "days"),
    [("D", pa.date32(), 1), ("M", pa.date32(), 31), ("Y", pa.date32(), 365), ("h", pa.timestamp("ms"), 1 / 24)],
)
def test_times_of_numpy_that_arrow_has_no_unit_for(tmp_path: Path, unit: str, kind: Any, days: float) -> None:
    times = [np.datetime64(0, unit), np.datetime64(1, unit), np.datetime64("NaT", unit)]
    rows = [{"one": time, "some": [time], "array": np.array([time] * 2), "in": {"a": time}} for time in times] * 200
    fp.write_parquet(fp.from_sequence(rows), tmp_path)
    table = fp.read_parquet(tmp_path).to_table()
    assert table.schema.field("one").type == kind
    at = [datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1) + datetime.timedelta(days=days), None]
    expected = [value.date() if value is not None and kind == pa.date32() else value for value in at]
    for row, value in zip(table.to_pylist(), expected * 200, strict=True):
        assert row == {"one": value, "some": [value], "array": [value] * 2, "in": {"a": value}}


def test_arrays_of_several_lengths_are_lists(tmp_path: Path) -> None:
    import torch

    lengths = [3, 0, 5]
    pipe = fp.from_sequence([{"x": np.arange(n, dtype=np.int16), "t": torch.ones(n)} for n in lengths])
    fp.write_parquet(pipe, tmp_path)
    assert list(fp.read_parquet(tmp_path)) == [{"x": list(range(n)), "t": [1.0] * n} for n in lengths]
    assert pq.read_schema(tmp_path / "part-00000.parquet").field("x").type.value_type == pa.int16()


@pytest.mark.skipif(
    int(pa.__version__.split(".")[0]) < 26, reason="Arrow reads no such lists with nulls before version 26"
)
def test_a_missing_array(tmp_path: Path) -> None:
    fp.write_parquet(fp.from_sequence([{"x": np.zeros((2, 2))}, {"x": None}]), tmp_path)
    table = pq.read_table(tmp_path / "part-00000.parquet")
    assert table["x"].null_count == 1 and table["x"].type.shape == [2, 2]


def test_a_schema_fixes_types(tmp_path: Path) -> None:
    source = [{"x": 1, "y": [1], "z": "a"}, {"x": 2.5, "y": [0.5], "z": "b"}]
    schema = {"x": "float32", "y": pa.list_(pa.float64())}
    fp.write_parquet(fp.from_sequence(source), tmp_path, schema=schema)
    kinds = pq.read_schema(tmp_path / "part-00000.parquet")
    assert [kinds.field(name).type for name in "xz"] == [pa.float32(), pa.string()]
    assert list(fp.read_parquet(tmp_path)) == source


def after(value: object) -> Iterator[dict[str, object]]:
    """2000 rows with a number, then one with another value."""
    for i in range(2000):
        yield {"id": i, "x": i}
    yield {"id": 2000, "x": value}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "row 2001 does not fit column 'x' of type int64: Could not convert 'text' with type str"),
        (2.5, "row 2001 does not fit column 'x' of type int64: Float value 2.5.* was truncated"),
        (2**70, "row 2001 does not fit column 'x' of type int64"),
        ([1], "row 2001 does not fit column 'x' of type int64"),
        (np.zeros(3), "row 2001 does not fit column 'x' of type int64"),
        (object(), "row 2001 does not fit column 'x' of type int64"),
    ],
)
def test_a_later_value_that_does_not_fit(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        fp.write_parquet(fp.from_iterable(lambda: after(value)), tmp_path, rows_per_file=600)
    assert "the first rows fix the types, unless `schema=` does" in str(error.value)
    assert files(tmp_path) == ["part-00000.parquet", "part-00001.parquet"], "finished files stay, without a manifest"


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": 1}, "row 2 has no column 'y', but the first rows do; None stands for a missing value"),
        ({"x": 1, "y": 1, "z": 1}, "row 2 has a column 'z' that the first rows do not have: 'x', 'y'"),
        ({"x": 1, "y": "1"}, "row 2 does not fit column 'y': "),
        ((1, 2), r"row 2 is of type tuple; `\.unbatch\(\)` gives the rows of batches, and `\.map` can make dicts"),
        ({"x": 1, 3: 2}, "row 2 has a column whose name is no string: 3"),
    ],
)
def test_rows_that_differ(tmp_path: Path, second: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fp.write_parquet(fp.from_sequence([{"x": 1, "y": 1}, second]), tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        (np.zeros((2, 2)), np.zeros((2, 3)), r"its shape is \(2, 3\)"),
        (np.zeros(2, np.uint8), np.zeros(2, np.int64), "its type is int64"),
        (np.zeros(2, np.int64), np.full(2, 0.5), "its type is float64"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, "it has a field 'a.c'"),
    ],
)
def test_later_values_lose_nothing(tmp_path: Path, first: object, later: object, message: str) -> None:
    with pytest.raises(DataError, match=f"row 257 does not fit column 'x' of type .*: {message}"):
        fp.write_parquet(fp.from_sequence([{"x": first}] * 256 + [{"x": later}]), tmp_path)


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    fp.write_parquet(rows(20), tmp_path, rows_per_file=5)
    with pytest.raises(ArgumentError, match="holds a run: `overwrite=True` removes it"):
        fp.write_parquet(rows(3), tmp_path)
    (tmp_path / "_manifest.jsonl").unlink()
    (tmp_path / ".part-00004.parquet.0123abcd.tmp").touch()
    with pytest.raises(ArgumentError, match="holds a run that was not finished: `overwrite=True` removes it") as error:
        fp.write_parquet(rows(3), tmp_path)
    assert "test_write_parquet.py" in str(error.value)
    fp.write_parquet(rows(3), tmp_path, overwrite=True)
    assert files(tmp_path) == ["_manifest.jsonl", "part-00000.parquet"]
    assert len(fp.read_parquet(tmp_path)) == 3
    fp.write_parquet(rows(4), tmp_path, overwrite=True)
    assert files(tmp_path) == ["_manifest.jsonl", "part-00000.parquet"]


@pytest.mark.parametrize("name", ["mine.txt", "part-0.parquet", "part-00000-7.parquet", "sub/a.parquet"])
def test_other_files_are_never_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    (tmp_path / "part-00000.parquet").write_text("of a run")
    before = files(tmp_path)
    with pytest.raises(ArgumentError, match=r"must be empty, or hold an earlier run, but .* holds '"):
        fp.write_parquet(rows(3), tmp_path, overwrite=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["out", "./out", "{}/out"])
def test_files_that_the_pipe_reads_are_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fp.write_parquet(rows(3), "out")
    with pytest.raises(
        ArgumentError, match="out holds files that the pipe reads, so it cannot be emptied; choose another"
    ):
        fp.write_parquet(fp.read_parquet("out/*.parquet"), name.format(tmp_path), overwrite=True)
    assert len(fp.read_parquet("out")) == 3


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"rows_per_file": 0}, ArgumentError, "`rows_per_file` must be >= 1 but got: 0"),
        ({"file_size": "big"}, ArgumentError, "`file_size` must be a size such as"),
        ({"file_size": 1, "rows_per_file": 1}, ArgumentError, "both say when a file is full: give one"),
        ({"row_group_rows": 0}, ArgumentError, "`row_group_rows` must be >= 1 but got: 0"),
        ({"compression": "zip"}, ArgumentError, "`compression` must be one of 'auto', 'lz4', "),
        ({"workers": -1}, ArgumentError, "`workers` must be >= 0 but got: -1"),
        (
            {"schema": {"sqare": "int8"}},
            ArgumentError,
            "column 'sqare' that the rows do not have; did you mean 'square'",
        ),
        ({"folder": 3}, ArgumentTypeError, "`folder` must be a path but got: 3"),
        ({"pipe": [1]}, ArgumentTypeError, r"`pipe` must be a Pipe but got: \[1\]"),
        ({"filesystem": "s3"}, ArgumentTypeError, "`filesystem` must be a file system of pyarrow or fsspec"),
    ],
)
def test_arguments(tmp_path: Path, options: dict[str, Any], kind: type[FeedpipeError], message: str) -> None:
    arguments = {"pipe": rows(3), "folder": tmp_path, **options}
    with pytest.raises(kind, match=message) as error:
        fp.write_parquet(**arguments)
    assert "test_write_parquet.py" in str(error.value)


def test_a_pipe_without_rows_makes_a_file_with_the_columns_of_the_schema(tmp_path: Path) -> None:
    none = rows(5).filter(lambda row: False)
    manifest = fp.write_parquet(none, tmp_path / "out", schema={"id": "int32", "text": "string"})
    assert entries(manifest)[0] | {"bytes": 0, "sha256": ""} == {
        "path": "part-00000.parquet", "bytes": 0, "rows": 0, "sha256": "",
    }  # fmt: skip
    fp.verify(manifest)
    read = fp.read_parquet(tmp_path / "out")
    assert len(read) == 0 and list(read) == []
    assert pq.read_schema(tmp_path / "out/part-00000.parquet") == pa.schema([("id", pa.int32()), ("text", pa.string())])


def test_a_pipe_without_rows_and_schema(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the pipe gives no row, .*`schema=` names them") as error:
        fp.write_parquet(rows(0), tmp_path / "out")
    assert f"{__file__}:" in str(error.value)
    assert files(tmp_path / "out") == []
    fp.write_parquet(rows(1), tmp_path / "out")
