"""What `parse_parquet` reads twice, leaves open and keeps in memory."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp

from ...support.core import end_dropped
from ...support.files import parquet as parquet_file
from .parquet_files import counted, parsed, write


def test_files_are_closed(tmp_path):
    files = counted(tmp_path, [30] * 20, rows=10)
    before = len(os.listdir("/proc/self/fd"))
    rows = iter(parsed(files))
    for _ in range(500):
        next(rows)
    assert len(os.listdir("/proc/self/fd")) <= before + 8
    del rows
    end_dropped()
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("filesystem", ["local", "memory"])
def test_a_large_row_group_is_read_bit_by_bit(tmp_path, monkeypatch, filesystem):
    monkeypatch.setattr(parquet_file, "MAX_FETCH_BYTES", 2**20)
    rows = 2_000_000
    path = write(tmp_path / "a.parquet", {f"x{k}": np.random.default_rng(k).normal(size=rows) for k in range(4)}, rows)
    files = fp.from_sequence([str(path)]).open_files()
    if filesystem == "memory":
        import fsspec

        memory = fsspec.filesystem("memory")
        memory.pipe("/large/a.parquet", path.read_bytes())
        files = fp.from_sequence(["/large/a.parquet"]).open_files(filesystem=memory)
    before = pa.total_allocated_bytes()
    most = seen = 0
    for batch in files.parse_parquet().batch(4096):
        most = max(most, pa.total_allocated_bytes() - before)
        seen += len(batch)
    if filesystem == "memory":
        memory.rm("/large", recursive=True)
    assert seen == rows
    assert most < rows * 32 / 2  # of 64 MB


def test_an_iterator_that_is_open_when_python_exits_prints_nothing(tmp_path):
    write(tmp_path / "a.parquet", {"x": [*range(100)]})
    code = """if True:
        import sys, feedpipe as fp
        loader = fp.Loader(fp.read_parquet(sys.argv[1]).filter(lambda row: True))
        rows = iter(loader)
        next(rows)"""
    run = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert run.stderr == ""
