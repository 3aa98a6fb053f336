"""What `parse_parquet` reads twice, leaves open and keeps in memory."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.extensions import START, Context

from ...storage.remote_store import RemoteStore
from ...support.core import end_dropped
from ...support.engine import bind, resolve
from ...support.files import open_files as _open_files
from ...support.files import parquet as parquet_file
from ...support.files import parquet_footer as _footers
from .parquet_files import counted, parsed, write


@pytest.mark.parametrize(("columns", "first"), [(["id"], 2**19), (["id", "t"], 256)])
def test_the_types_of_columns_tell_how_many_rows_make_a_batch(tmp_path, monkeypatch, columns, first):
    asked = []
    real = parquet_file.ParquetFile._batches

    def batches(self, footer, stream, group, rows, *rest, **options):
        asked.append(rows)
        return real(self, footer, stream, group, rows, *rest, **options)

    monkeypatch.setattr(parquet_file.BatchSize, "MAX_ROWS", 2**30)
    monkeypatch.setattr(parquet_file.ParquetFile, "_batches", batches)
    assert len(list(parsed(counted(tmp_path, [1_000], rows=1_000), columns=columns))) == 1_000
    assert len(asked) == (1 if "t" not in columns else 2)
    assert first <= asked[0] < 2 * first


def test_footers_are_read_once_and_the_graph_is_small(tmp_path, monkeypatch):
    import cloudpickle

    files = counted(tmp_path, [30, 30, 30], rows=10)
    read = []
    opened = fp.File.open
    monkeypatch.setattr(fp.File, "open", lambda self, *rest: read.append(self.path) or opened(self, *rest))
    root = resolve(parsed(files))
    assert sorted({*read}) == sorted(map(str, files)) and len(read) <= 4
    sent = cloudpickle.dumps(root)
    assert len(sent) < 20_000
    read.clear()
    assert [row["id"] for block in bind(cloudpickle.loads(sent)).blocks(START, Context()) for row in block.rows] == [
        *range(90)
    ]
    assert len(read) == 3


class Shelf(RemoteStore):
    """Files that count as local, whose reads are counted."""

    def get_type_name(self):
        return "mock"


@pytest.mark.slow
@pytest.mark.parametrize(("store", "groups", "count"), [(RemoteStore, 10, 30), (Shelf, 100, 5), (Shelf, 1000, 2)])
def test_shuffled_row_groups_cost_no_more_bytes_than_those_in_order(monkeypatch, store, groups, count):
    monkeypatch.setattr(_open_files, "_MAX_OPEN_FILES", 1)
    table = pa.table({f"c{k}": pa.array(np.zeros(4 * groups, np.int8)) for k in range(5)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=4)
    shelf = store({f"d/{k}": sink.getvalue() for k in range(count)})

    def bytes_read(make):
        _footers._cache.clear()
        shelf.requests.clear()
        batches = make(fp.read_parquet("d", filesystem=shelf.filesystem))
        assert sum(len(batch) for batch in fp.Loader(batches)) == len(table) * count
        return sum(end - begin for _, begin, end in shelf.requests)

    in_order = bytes_read(lambda pipe: pipe.batch(2000))
    shuffled = bytes_read(lambda pipe: pipe.shuffle(window=500).batch(2000))
    assert shuffled <= 1.2 * in_order
    monkeypatch.setattr(_footers._cache, "_budget", 0)  # one footer is kept, so all rows still come
    if groups == 10:
        assert bytes_read(lambda pipe: pipe.shuffle(window=500).batch(2000)) > 1.2 * in_order


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


@pytest.mark.slow
def test_long_text_makes_short_batches(tmp_path):
    # A dictionary makes the file small although its rows are large.
    path = write(tmp_path / "a.parquet", {"t": ["x" * 100_000] * 3000})
    assert path.stat().st_size < 2**20
    before = pa.total_allocated_bytes()
    most = 0
    for block in bind(resolve(parsed([path]))).blocks(START, Context()):
        most = max(most, pa.total_allocated_bytes() - before)
        del block
    assert most < 100_000 * 3000 / 3


def test_an_iterator_that_is_open_when_python_exits_prints_nothing(tmp_path):
    write(tmp_path / "a.parquet", {"x": [*range(100)]})
    code = """if True:
        import sys, feedpipe as fp
        loader = fp.Loader(fp.read_parquet(sys.argv[1]).filter(lambda row: True))
        rows = iter(loader)
        next(rows)"""
    run = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert run.stderr == ""
