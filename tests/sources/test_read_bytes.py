from __future__ import annotations

import gzip

import pytest

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator


def test_law(tmp_path):
    for n in range(12):
        (tmp_path / f"{n:02d}.bin").write_bytes(bytes(range(n)))
    rows = check_operator(fp.read_bytes(tmp_path))
    assert rows == [{"path": str(tmp_path / f"{n:02d}.bin"), "bytes": bytes(range(n))} for n in range(12)]
    check_operator(fp.read_bytes(tmp_path).shuffle().batch(5))


def test_a_file_that_decompresses_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("feedpipe.formats.streams._MAX_UNPACKED_BYTES", 3 << 20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(3 << 20)))
    (tmp_path / "b.gz").write_bytes(gzip.compress(bytes((3 << 20) + 1)))
    rows = iter(fp.read_bytes(tmp_path))
    assert next(rows)["bytes"] == bytes(3 << 20)
    with pytest.raises(DataError, match=r"(?s)b\.gz: 3 MiB or more unpack from .*`compression=None`.*\n  at "):
        next(rows)
    assert len(list(fp.read_bytes(tmp_path, compression=None))) == 2
