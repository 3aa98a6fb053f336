from __future__ import annotations

import gzip

import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.testing import check_operator


def test_law(tmp_path):
    for n in range(12):
        (tmp_path / f"{n:02d}.bin").write_bytes(bytes(range(n)))
    rows = check_operator(fp.read_bytes(tmp_path))
    assert rows == [{"path": str(tmp_path / f"{n:02d}.bin"), "bytes": bytes(range(n))} for n in range(12)]
    check_operator(fp.read_bytes(tmp_path).shuffle().batch(5))


def test_every_argument_arrives(tmp_path):
    (tmp_path / "deep").mkdir()
    compressed = gzip.compress(b"a")  # the header has the time, so a second call may give other bytes
    (tmp_path / "deep" / "a.gz").write_bytes(compressed)
    (tmp_path / "deep" / "b.txt").write_bytes(b"b")
    assert [row["bytes"] for row in fp.read_bytes(tmp_path, pattern="*.gz", recursive=True)] == [b"a"]
    plain = fp.read_bytes(tmp_path, pattern="*.gz", recursive=True, compression=None)
    assert [row["bytes"] for row in plain] == [compressed]
    assert repr(fp.read_bytes("a")) == "fp.list_files('a').open_files().parse_bytes()"


def test_a_missing_folder(tmp_path):
    with pytest.raises(SourceError, match="none is not there"):
        len(fp.read_bytes(tmp_path / "none"))


@pytest.mark.slow
def test_workers(tmp_path):
    for n in range(12):
        (tmp_path / f"{n:02d}.txt").write_bytes(b"%d" % n)
    pipe = fp.read_bytes(tmp_path).shuffle().decode()
    with fp.Loader(pipe, workers=2, seed=3) as loader, fp.Loader(pipe, seed=3) as here:
        assert list(loader) == list(here)


def test_a_file_that_decompresses_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("feedpipe.files.open_files.MAX_ROW_BYTES", 3 << 20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(3 << 20)))
    (tmp_path / "b.gz").write_bytes(gzip.compress(bytes((3 << 20) + 1)))
    rows = iter(fp.read_bytes(tmp_path))
    assert next(rows)["bytes"] == bytes(3 << 20)
    with pytest.raises(DataError, match=r"(?s)b\.gz holds more than 3 MiB, the most .*`compression=None`.*\n  at "):
        next(rows)
    assert len(list(fp.read_bytes(tmp_path, compression=None))) == 2
