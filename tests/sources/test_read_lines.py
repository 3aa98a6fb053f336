from __future__ import annotations

import gzip

import feedpipe as fp
from feedpipe.testing import check_operator


def test_law(tmp_path):
    (tmp_path / "b.txt").write_text("three\n\nfour")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert check_operator(fp.read_lines(tmp_path)) == ["one", "two", "three", "", "four"]


def test_every_argument_arrives(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.dat").write_bytes(gzip.compress("é\n".encode("latin-1")))
    (tmp_path / "deep" / "a.txt").write_bytes(b"not this")
    pipe = fp.read_lines(tmp_path, pattern="*.dat", recursive=True, compression="gzip", encoding="latin-1")
    assert list(pipe) == ["é"]
    assert repr(fp.read_lines("a")) == "fp.list_files('a').open_files().parse_lines()"
