"""How `write_parquet` stores columns, by the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp

from ..support.examples import examples

RANDOM = np.random.default_rng(11)
ROWS = 20_000
SENTENCES = [" ".join(RANDOM.choice(["the", "quick", "brown", "fox", "jumps"], 12)) for _ in range(ROWS)]
COLUMNS: dict[str, tuple[Any, str, str]] = {
    # values, encoding, codec
    "random floats": (RANDOM.standard_normal(ROWS).astype(np.float32), "PLAIN", "LZ4"),
    "a random walk": (RANDOM.standard_normal(ROWS).cumsum().astype(np.float32), "BYTE_STREAM_SPLIT", "LZ4"),
    "few floats": (RANDOM.integers(0, 300, ROWS) / 7, "RLE_DICTIONARY", "LZ4"),
    "numbers of rows": (np.arange(ROWS), "DELTA_BINARY_PACKED", "LZ4"),
    "random integers": (RANDOM.integers(0, 2**62, ROWS), "PLAIN", "LZ4"),
    "labels": (RANDOM.integers(0, 10, ROWS) * 10**12, "RLE_DICTIONARY", "LZ4"),
    "words": ([f"word {k}" for k in RANDOM.integers(0, 97, ROWS)], "RLE_DICTIONARY", "LZ4"),
    "sentences": (SENTENCES, "PLAIN", "ZSTD"),
    "times": (pa.array(np.arange(ROWS) * 3_600, pa.timestamp("s")), "DELTA_BINARY_PACKED", "LZ4"),
}


def written(folder: Path, table: pa.Table, **options: Any) -> list[Path]:
    fp.write_parquet(fp.from_table(table), folder, **options)
    return sorted(folder.glob("**/*.parquet"))


def stored(path: Path) -> dict[str, Any]:
    """The first chunk of each column of a file."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema: column for column in columns}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_encoding_suits_the_data(tmp_path: Path, name: str) -> None:
    values, encoding, codec = COLUMNS[name]
    (path,) = written(tmp_path, pa.table({"x": values}))
    column = stored(path)["x"]
    assert encoding in column.encodings and column.has_dictionary_page is (encoding == "RLE_DICTIONARY")
    assert column.compression == codec
    assert pq.read_table(path)["x"].to_pylist() == pa.chunked_array([values]).to_pylist()


def test_files_are_smaller_than_those_of_pyarrow(tmp_path: Path) -> None:
    table = pa.table({name: values for name, (values, _, _) in COLUMNS.items()})
    (path,) = written(tmp_path, table)
    pq.write_table(table, tmp_path / "pyarrow")
    theirs = stored(tmp_path / "pyarrow")
    for name, column in stored(path).items():
        assert column.total_compressed_size <= 1.02 * theirs[name].total_compressed_size, name


@pytest.mark.parametrize("codec", ["zstd", "snappy", None])
def test_one_codec_for_all_columns(tmp_path: Path, codec: Any) -> None:
    table = pa.table({name: values for name, (values, _, _) in COLUMNS.items()})
    (path,) = written(tmp_path, table, compression=codec)
    assert {column.compression for column in stored(path).values()} == {(codec or "uncompressed").upper()}
    assert pq.read_table(path).cast(table.schema).equals(table)


def test_columns_within_columns(tmp_path: Path) -> None:
    lists = RANDOM.standard_normal((ROWS, 3)).cumsum(0).astype(np.float32)
    table = pa.table(
        {
            "point": pa.FixedSizeListArray.from_arrays(lists.ravel(), 3),
            "parts": pa.StructArray.from_arrays([np.arange(ROWS), pa.array(["a", "b"] * (ROWS // 2))], ["id", "kind"]),
        }
    )
    (path,) = written(tmp_path, table)
    encodings = {
        name.partition(".")[0] + name.rpartition(".")[2]: column.encodings for name, column in stored(path).items()
    }
    assert "BYTE_STREAM_SPLIT" in encodings["pointelement"]
    assert "DELTA_BINARY_PACKED" in encodings["partsid"]
    assert "RLE_DICTIONARY" in encodings["partskind"]
    assert pq.read_table(path).to_pylist() == table.to_pylist()


def late_nulls(rows: int, *, first: int) -> pa.Table:
    return pa.table({"id": range(rows), "x": [None if k >= first and k % 7 == 0 else k / 4 for k in range(rows)]})


def test_a_column_without_nulls_is_not_nullable(tmp_path: Path) -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["a", "b"]))
    table = pa.table({"a": [1, 2, 3], "b": [1, None, 3], "c": pa.nulls(3), "d": codes, "e": codes.take([0, None, 2])})
    (path,) = written(tmp_path, table)
    assert [field.nullable for field in pq.read_schema(path)] == [False, True, True, False, True]
    assert pq.read_table(path).to_pylist() == table.to_pylist()


def test_a_late_null_ends_a_file(tmp_path: Path) -> None:
    table = late_nulls(1000, first=500)
    paths = written(tmp_path, table, row_group_rows=100, rows_per_file=800)
    files = [pq.ParquetFile(path) for path in paths]
    assert [file.metadata.num_rows for file in files] == [500, 300, 200]  # later files end where they would have ended
    nullable = [[field.nullable for field in file.schema_arrow] for file in files]
    assert nullable == [[False, False], [False, True], [False, True]]
    assert list(fp.read_parquet(tmp_path)) == table.to_pylist()


def test_other_readers_take_files_with_and_without_nulls(tmp_path: Path) -> None:
    table = late_nulls(1000, first=500)
    paths = written(tmp_path, table, row_group_rows=100)
    assert len(paths) == 2
    names = [str(path) for path in paths]
    for order in (names, names[::-1]):
        read = [
            pq.read_table(order).to_pylist(),
            ds.dataset(order).to_table().to_pylist(),
            polars.read_parquet(order).to_dicts(),
            duckdb.read_parquet(order).to_arrow_table().to_pylist(),
        ]
        expected = sorted(table.to_pylist(), key=lambda row: row["id"])
        assert all(sorted(rows, key=lambda row: row["id"]) == expected for rows in read)


def test_late_nulls_in_folders(tmp_path: Path) -> None:
    table = late_nulls(1000, first=600).append_column("day", pa.array([k % 3 for k in range(1000)]))
    paths = written(tmp_path, table, partition_by="day", row_group_rows=50)
    nullable = [pq.read_schema(path).field("x").nullable for path in paths]
    assert nullable == [False, True, True, True], "once one folder has a null, files of all may have one"
    assert sorted(fp.read_parquet(tmp_path, recursive=True), key=lambda row: row["id"]) == table.to_pylist()  # type: ignore[arg-type,return-value]


@given(
    st.lists(st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text(max_size=2)), min_size=1),
    st.integers(1, 9),
    st.integers(1, 30),
)
@settings(max_examples=examples(60), deadline=None)
def test_rows_come_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[Any, Any]], group: int, per_file: int
) -> None:
    folder = tmp_path_factory.mktemp("out")
    table = pa.table(
        {"n": pa.array([n for n, _ in values], pa.int64()), "t": pa.array([t for _, t in values], pa.string())}
    )
    manifest = fp.write_parquet(fp.from_table(table), folder, row_group_rows=group, rows_per_file=per_file)
    assert list(fp.read_parquet(folder)) == table.to_pylist()
    sizes = [json.loads(line)["rows"] for line in Path(manifest).read_text().splitlines()[1:]]
    shorter = sum(size < per_file for size in sizes[:-1])
    assert max(sizes) <= per_file and shorter <= 2, "a file is short because of the first null of a column"
