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


def late_nulls(rows: int, *, first: int) -> pa.Table:
    return pa.table({"id": range(rows), "x": [None if k >= first and k % 7 == 0 else k / 4 for k in range(rows)]})


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
