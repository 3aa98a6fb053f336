"""Files that are written: complete, or not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import SourceError

from ..support.storage import Output, open_output


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    with open_output(path) as stream:
        stream.write(b"one")
        assert not os.path.exists(path)
        stream.write(b"two")
    assert Path(path).read_bytes() == b"onetwo"
    with open_output(path) as stream:
        stream.write(b"three")
    assert Path(path).read_bytes() == b"three"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("writer", [fp.write_parquet, fp.write_tar])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Any) -> None:
    written = 0

    class Full:
        """A stream to a disk with room for 2000 bytes."""

        def __init__(self, stream: Any) -> None:
            self.close = stream.close

        def write(self, data: bytes) -> None:
            nonlocal written
            written += len(data)
            if written > 2000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    begin = Output.__init__
    monkeypatch.setattr(Output, "__init__", lambda self, stream, path: begin(self, Full(stream), path))
    pipe = fp.from_sequence(range(5000)).map(lambda i: {"__key__": str(i), "cls": i})
    with pytest.raises(SourceError, match=r"part-00000\.\w+ cannot be written: No space left on device"):
        writer(pipe, tmp_path)
    assert os.listdir(tmp_path) == []
