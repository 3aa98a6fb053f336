"""`parse_arrow` of files that are read by ranges, and not mapped."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem

import feedpipe as fp
from feedpipe.testing import check_operator

from ...storage.remote_store import RemoteStore
from ...support.storage import Cancellation, RemoteFile
from .arrow_files import FILE, STREAM, WAYS, counted, encoded, listed


@WAYS
def test_a_remote_file(tmp_path: Path, indexed: bool) -> None:
    memory = fsspec.filesystem("memory")
    for file in counted(tmp_path, [30, 20], 7):
        memory.pipe(f"/parse_arrow/{file.name}", file.read_bytes())
    pipe = fp.list_files("memory://parse_arrow/*.arrow").open_files().parse_arrow(indexed=indexed)
    assert check_operator(pipe) == listed(50)
    if indexed:
        assert sorted(row["id"] for row in pipe.shuffle()) == [*range(50)]
    memory.rm("/parse_arrow", recursive=True)


class Far(LocalFileSystem):
    """Local files read as if they were remote: by ranges, not mapped."""

    protocol = "far"


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("form", [FILE, STREAM])
def test_remote_files_are_read_by_ranges(tmp_path: Path, form: Any, compression: str | None) -> None:
    files = [str(file) for file in counted(tmp_path, [30, 0, 20], 7, form=form, compression=compression)]
    opened = fp.list_files(files, filesystem=Far()).open_files(filesystem=Far())
    assert check_operator(opened.parse_arrow()) == listed(50)
    if form is FILE:
        pipe = opened.parse_arrow(columns=["t"], indexed=True)
        assert [row["t"] for row in check_operator(pipe)] == [str(i) for i in range(50)]


def test_below_a_subtree(tmp_path: Path) -> None:
    counted(tmp_path, [30], 7)
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    pipe = fp.list_files("0.arrow", filesystem=below).open_files(filesystem=below).parse_arrow(indexed=True)
    assert list(pipe) == listed(30)


def test_heads_of_remote_batches_are_read_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    place = RemoteStore({"a.arrow": encoded({"id": list(range(40)), "t": ["x" * 10_000] * 40}, 1)})
    together = threading.Barrier(16, timeout=60)
    heads: list[int] = []
    numbers = itertools.count()
    read = RemoteFile.read

    def wait(self: RemoteFile, start: int, size: int, cancellation: Cancellation) -> bytes:
        if size < 1_000:
            heads.append(start)
            if 10 <= next(numbers) < 26:
                together.wait()
        return read(self, start, size, cancellation)

    monkeypatch.setattr(RemoteFile, "read", wait)
    assert len(fp.read_arrow("a.arrow", filesystem=place.filesystem)) == 40
    assert len(heads) == len(set(heads)) == 40
