"""`pipe.schema`: what is known of the columns without a run is what a run gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import feedpipe as fp

TABLE = pa.table(
    {
        "n": pa.array([1, 2, None, 4], pa.int16()),
        "f": pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()),
        "b": [True, None, False, True],
        "t": ["a", "b", "c", "d"],
        "d": pa.array(["u", "v", "u", "u"]).dictionary_encode(),
        "l": [[1], [], None, [2, 3]],
        "s": [{"k": 1, "v": "x"}] * 4,
        "at": pa.array([0, 1, 2, 3], pa.timestamp("us", "UTC")),
    },
    metadata={"a": "b"},
)
ARRAYS = {
    "x": np.arange(4, dtype=">i4"),
    "image": np.zeros((4, 2, 3), "uint8"),
    "text": np.array(["a", "bc", "d", "e"]),
    "mask": np.array([True, False, True, True]),
}


def npy(path: Path) -> Any:
    np.save(path / "x.npy", ARRAYS["image"])
    return fp.read_numpy({"x": path / "x.npy"})


def tokens(path: Path) -> Any:
    np.arange(20, dtype="uint16").tofile(path / "x.bin")
    return fp.read_tokens(path / "x.bin", dtype="uint16", length=5, documents=True, end=3)


def text(path: Path, lines: str, read: Callable[..., Any]) -> Any:
    folder = path / "year=2024"
    folder.mkdir()
    (folder / "x").write_text(lines)
    return read(path, recursive=True, path_column="path", row_column="row")


def columns(path: Path, write: Callable[..., object], read: Callable[..., Any], **options: Any) -> Any:
    folder = path / "year=2024"
    folder.mkdir()
    write(TABLE, str(folder / "x"))
    return read(path, recursive=True, path_column="path", row_column="row", **options)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "arrays": lambda path: fp.from_arrays(ARRAYS),
    "table": lambda path: fp.from_table(TABLE),
    "npy": npy,
    "tokens": tokens,
    "csv": lambda path: text(path, "a,b\n1,x\n2,y\n", fp.read_csv),
    "jsonl": lambda path: text(path, '{"a": 1, "b": ["x"]}\n{"a": 2}\n', fp.read_jsonl),
    "parquet": lambda path: columns(path, pa.parquet.write_table, fp.read_parquet),
    "arrow": lambda path: columns(path, pa.feather.write_feather, fp.read_arrow),
}


@pytest.mark.parametrize("source", SOURCES)
def test_it_is_that_of_the_rows(source: str, tmp_path: Path) -> None:
    pipe = SOURCES[source](tmp_path)
    schema = next(iter(pipe.batch(100))).arrow.schema
    assert pipe.schema == schema and pipe.schema.metadata is None
    unchanged = pipe.filter(lambda row: True).take(3).prefetch(1).shuffle(window=2).repeat(2).dispatch()
    assert unchanged.shard_by_rank().schema == schema
    assert pipe.concat(pipe).load().shuffle().schema == schema


def test_no_row_is_read() -> None:
    pipe = fp.from_table(TABLE).filter(lambda row: 1 / 0)
    assert pipe.load().rename({"n": "m"}).drop("s").schema.names == ["m", "f", "b", "t", "d", "l", "at"]


def test_it_is_unknown_where_only_a_run_can_tell() -> None:
    pipe = fp.from_table(TABLE)
    unknown = (
        fp.from_sequence([{"a": 1}]),
        pipe.map(lambda row: row),
        pipe.batch(2),
        pipe.zip(pipe),
        pipe.concat(pipe.drop("n")),
        fp.from_iterable([]),
    )
    assert [p.schema for p in unknown] == [None] * len(unknown)
