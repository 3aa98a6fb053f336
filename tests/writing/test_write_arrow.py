from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError


def rows(count: int) -> fp.Pipe[dict[str, object]]:
    return fp.from_sequence(range(count)).map(lambda i: {"id": i, "text": None if i % 3 == 0 else str(i)})


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 25), st.sampled_from([None, "lz4", "zstd"]))
def test_files_and_record_batches(
    tmp_path_factory: pytest.TempPathFactory, count: int, per_file: int, per_batch: int, compression: object
) -> None:
    folder = tmp_path_factory.mktemp("out")
    manifest = fp.write_arrow(
        rows(count),
        folder,
        rows_per_file=per_file,
        batch_rows=per_batch,
        compression=compression,  # type: ignore[arg-type]
    )
    fp.verify(manifest)
    files = [pa.ipc.open_file(path) for path in sorted(folder.glob("part*.arrow"))]
    sizes = [[file.get_batch(k).num_rows for k in range(file.num_record_batches)] for file in files]
    assert all(sum(batches) == per_file for batches in sizes[:-1]) and 0 < sum(sizes[-1]) <= per_file
    assert all(size == min(per_batch, per_file) for batches in sizes for size in batches[:-1])
    read = fp.read_arrow(folder)
    assert list(read) == list(rows(count)) and read[count - 1] == rows(count)[count - 1]


def test_an_earlier_run_no_rows_and_bad_arguments(tmp_path: Path) -> None:
    fp.write_arrow(rows(3), tmp_path)
    with pytest.raises(ArgumentError, match="holds a run: `overwrite=True` removes it"):
        fp.write_arrow(rows(4), tmp_path)
    fp.write_arrow(rows(0), tmp_path, schema={"id": "int64"}, overwrite=True)
    assert list(fp.read_arrow(tmp_path)) == []
    with pytest.raises(DataError, match="the pipe gives no row, so its columns are not known"):
        fp.write_arrow(rows(0), tmp_path / "none")
    with pytest.raises(DataError, match="`write_arrow` writes rows that are dicts"):
        fp.write_arrow(fp.from_sequence([1]), tmp_path / "bad")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`compression` must be one of 'zstd', 'lz4', None but got: 'gzip'"):
        fp.write_arrow(rows(1), tmp_path / "bad", compression="gzip")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`batch_rows` must be >= 1 but got: 0"):
        fp.write_arrow(rows(1), tmp_path / "bad", batch_rows=0)
