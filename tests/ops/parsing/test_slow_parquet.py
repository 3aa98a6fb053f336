from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp

from ...support.files import parquet_footer

RANDOM = np.random.default_rng(5)
FLOATS = RANDOM.standard_normal((6, 20_000)).astype(np.float32)
TABLE = pa.table(
    {"name": ["a"] * 20_000, **{f"f{k}": row for k, row in enumerate(FLOATS)}, "label": np.arange(20_000) % 10}
)


def judged(path: Path, columns: list[str] | None = None, **options: Any) -> parquet_footer.SlowFile | None:
    pq.write_table(TABLE, path, **options)
    with path.open("rb") as stream:
        return parquet_footer.slow_file(parquet_footer.read_parquet_footer(stream, str(path)), columns)


PLAIN: dict[str, Any] = {"use_dictionary": ["name", "label"]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "values hardly repeat, but have dictionaries, in 'f0', 'f1', 'f2', 'f3', 'f4', 'f5'"),
        ({"compression": "zstd", **PLAIN}, "zstd hardly makes values smaller in 'f0'"),
        ({"compression": "gzip"}, "gzip, which decodes slowly, compresses 'name', 'f0'"),
        ({"compression": "brotli", **PLAIN}, "brotli, which decodes slowly, compresses 'name', 'f0'"),
    ],
)
def test_what_makes_a_file_slow(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    (tmp_path / "data").mkdir()
    slow = judged(tmp_path / "data" / "a.parquet", **options)
    assert slow is not None
    assert slow.problem.startswith(f"{tmp_path}/data/a.parquet decodes slowly because of how it was written: {problem}")
    assert slow.repair == f"fp.write_parquet(fp.read_parquet('{tmp_path}/data'), '{tmp_path}/data-fast')"


@pytest.mark.parametrize("options", [PLAIN, {**PLAIN, "compression": "lz4"}, {"use_dictionary": False}])
def test_files_that_are_not_slow(tmp_path: Path, options: dict[str, Any]) -> None:
    assert judged(tmp_path / "a.parquet", **options) is None


def test_only_the_columns_that_are_read_count(tmp_path: Path) -> None:
    assert judged(tmp_path / "a.parquet", ["label"]) is None
    assert judged(tmp_path / "a.parquet", ["label", "f3"]) is not None


@pytest.mark.parametrize("rows", [0, 300])
def test_a_file_with_few_rows(tmp_path: Path, rows: int) -> None:
    pq.write_table(TABLE[:rows], tmp_path / "a.parquet")
    with (tmp_path / "a.parquet").open("rb") as stream:
        assert parquet_footer.slow_file(parquet_footer.read_parquet_footer(stream, "a.parquet")) is None


def test_explain_names_a_slow_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    fp.read_parquet(tmp_path / "a.parquet").select("f1", "label").explain()
    said = capsys.readouterr().out
    assert "reads 2 of 8 columns, because a later `select` keeps no others; " in said
    assert f"{tmp_path}/a.parquet decodes slowly because of how it was written: values hardly repeat" in said
    assert f"in 'f1'; `fp.write_parquet(fp.read_parquet('{tmp_path}'), '{tmp_path}-fast')`" in said
    fp.read_parquet(tmp_path / "a.parquet").select("name", "label").explain()
    assert "slowly" not in capsys.readouterr().out
