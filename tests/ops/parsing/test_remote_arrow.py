"""`parse_arrow` of files that are read by ranges, and not mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

import feedpipe as fp
from feedpipe.testing import check_operator

from .arrow_files import FILE, STREAM, WAYS, counted, listed


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
