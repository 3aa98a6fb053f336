"""Files mapped into memory: one mapping a file, not too many of them, and a clear error beyond the limit."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

import feedpipe as fp

from ..support.storage import mapping
from .remote_store import RemoteStore

FILES = 12


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many files may be mapped."""
    gc.collect()
    others = mapping._most_files() - mapping.room_for_mappings()
    return lambda count: monkeypatch.setattr(mapping, "_most_files", lambda: count + others)


def mappings(folder: Path) -> int:
    """How many mappings of files in a folder this process has."""
    return Path("/proc/self/maps").read_text().count(f"{folder}/")


def arrow_files(folder: Path, *, compression: str = "uncompressed") -> list[dict[str, Any]]:
    rows = [{"x": k, "t": f"text {k}"} for k in range(5 * FILES)]
    for k in range(FILES):
        table = pa.Table.from_pylist(rows[5 * k : 5 * k + 5])
        pyarrow.feather.write_feather(table, folder / f"{k:02}.arrow", compression=compression)  # type: ignore[arg-type]
    return rows


def numpy_files(folder: Path) -> list[int]:
    for k in range(FILES):
        np.save(folder / f"{k:02}.npy", np.arange(5 * k, 5 * k + 5))
    return [*range(5 * FILES)]


@pytest.mark.parametrize("most", [0, 1, 3, FILES - 1, FILES, 100])
def test_arrow_files_beyond_the_bound(tmp_path: Path, room: Callable[[int], None], most: int) -> None:
    rows = arrow_files(tmp_path)
    room(most)
    pipe = fp.read_arrow(tmp_path)
    seen = 0
    for _ in range(2):
        for k, row in enumerate(pipe):
            assert row == rows[k]
            seen = max(seen, mappings(tmp_path))
    assert seen <= (FILES if most >= FILES else max(most, 8) + 2)  # eight files stay open in any case
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    assert [pipe[k] for k in order] == [rows[k] for k in order]
    assert sorted(row["x"] for batch in fp.Loader(pipe.shuffle().batch(16)) for row in batch) == [*range(len(rows))]


@pytest.mark.parametrize("most", [0, 3, 100])
def test_numpy_files_beyond_the_bound(tmp_path: Path, room: Callable[[int], None], most: int) -> None:
    rows = numpy_files(tmp_path)
    room(most)
    pipe = fp.read_numpy({"x": tmp_path, "y": tmp_path})
    seen = 0
    for _ in range(2):
        for k in range(len(rows)):
            assert pipe[k] == {"x": k, "y": k}
            seen = max(seen, mappings(tmp_path))
    assert seen <= min(FILES, most + 1)
    batches = [batch["x"].tolist() for batch in fp.Loader(pipe.shuffle().batch(16))]
    assert sorted(sum(batches, [])) == rows


def test_remote_files_are_opened_when_their_rows_are_read(tmp_path: Path) -> None:
    rows = arrow_files(tmp_path)
    store = RemoteStore({f"d/{path.name}": path.read_bytes() for path in tmp_path.iterdir()})
    pipe = fp.read_arrow("d", filesystem=store.filesystem)
    assert len(pipe) == len(rows)
    store.requests.clear()
    assert pipe[-1] == rows[-1]
    assert {path for path, _, _ in store.requests} == {"d/11.arrow"}
