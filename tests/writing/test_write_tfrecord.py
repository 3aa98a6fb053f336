from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tfrecord.tools.tfrecord2idx import create_index

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError


def rows(count: int) -> fp.Pipe[dict[str, object]]:
    return fp.from_sequence(range(count)).map(lambda i: {"id": i, "square": [i * i] * (i % 3)})


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    manifest = fp.write_tfrecord(rows(700), tmp_path / "out", rows_per_file=300)
    assert sorted(path.name for path in (tmp_path / "out").glob("part*")) == [
        f"part-0000{k}.tfrecord" for k in range(3)
    ]
    assert list(fp.read_tfrecord(tmp_path / "out")) == list(rows(700))
    fp.verify(manifest)
    with pytest.raises(ArgumentError, match="holds a run: `overwrite=True` removes it"):
        fp.write_tfrecord(rows(1), tmp_path / "out")
    fp.write_tfrecord(rows(100), tmp_path / "out", compression="gzip", overwrite=True)
    assert [path.name for path in (tmp_path / "out").glob("part*")] == ["part-00000.tfrecord.gz"]
    assert gzip.decompress((tmp_path / "out" / "part-00000.tfrecord.gz").read_bytes())
    assert list(fp.read_tfrecord(tmp_path / "out")) == list(rows(100))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, -(2**63)], None),
        ([True, False, None], [1, 0, None]),
        ([0.5, None, 2.0], None),
        (["a", "süd", None], [b"a", "süd".encode(), None]),
        ([b"\0", b"", None], None),
        ([["a"], [], ["b", "c"]], [[b"a"], [], [b"b", b"c"]]),
        ([np.ones((2, 2), np.float32)] * 3, [[1.0] * 4] * 3),
        ([torch.arange(3), torch.arange(2), torch.arange(0)], [[0, 1, 2], [0, 1], []]),
    ],
)
def test_values_come_back(tmp_path: Path, values: list[Any], expected: list[Any] | None) -> None:
    fp.write_tfrecord(fp.from_sequence([{"x": value} for value in values]), tmp_path)
    assert [row["x"] for row in fp.read_tfrecord(tmp_path)] == (values if expected is None else expected)


@pytest.mark.parametrize("value", [datetime.date(2024, 2, 29), {"a": 1}, [[1]], [1, None], np.uint64(2**63)])
def test_values_that_no_example_holds(tmp_path: Path, value: Any) -> None:
    with pytest.raises(DataError, match="column 'x' has .*and an Example holds"):
        fp.write_tfrecord(fp.from_sequence([{"x": value}]), tmp_path)


def test_an_index_beside_each_file(tmp_path: Path) -> None:
    """It is the one that the package `tfrecord` makes."""
    manifest = fp.write_tfrecord(rows(70), tmp_path / "out", rows_per_file=40, index=True)
    names = sorted(path.name for path in (tmp_path / "out").glob("part*"))
    assert names == ["part-00000.index", "part-00000.tfrecord", "part-00001.index", "part-00001.tfrecord"]
    for number in range(2):
        create_index(str(tmp_path / "out" / f"part-0000{number}.tfrecord"), str(tmp_path / "index"))
        assert (tmp_path / "index").read_bytes() == (tmp_path / "out" / f"part-0000{number}.index").read_bytes()
    assert fp.read_tfrecord(tmp_path / "out", indexed=True)[69] == rows(70)[69]
    fp.verify(manifest)
    fp.write_tfrecord(rows(0), tmp_path / "out", index=True, overwrite=True)
    assert len(fp.read_tfrecord(tmp_path / "out", indexed=True)) == 0
    with pytest.raises(ArgumentError, match="`index` must be left out if `compression` is given"):
        fp.write_tfrecord(rows(1), tmp_path / "bad", compression="gzip", index=True)


def test_no_rows_and_bad_arguments(tmp_path: Path) -> None:
    fp.write_tfrecord(rows(0), tmp_path / "none")
    assert list(fp.read_tfrecord(tmp_path / "none")) == []
    with pytest.raises(ArgumentError, match="`compression` must be one of 'gzip', None but got: 'zstd'"):
        fp.write_tfrecord(rows(1), tmp_path / "bad", compression="zstd")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="`write_tfrecord` writes rows that are dicts"):
        fp.write_tfrecord(fp.from_sequence([1]), tmp_path / "bad")  # type: ignore[arg-type]
