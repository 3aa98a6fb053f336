from __future__ import annotations

import gzip

import pytest

import feedpipe as fp
from feedpipe.errors import SourceError
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


@pytest.mark.parametrize("size", [10, 150_000, 200_000])
def test_a_file_that_is_cut_while_it_is_read_loses_no_rows_in_silence(tmp_path, size):
    path = tmp_path / "a.txt"
    lines = [f"line {n:05d}".ljust(49) for n in range(5000)]
    path.write_text("".join(f"{line}\n" for line in lines))
    rows = iter(fp.read_lines(path))
    taken = [next(rows)]
    with path.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(SourceError, match="has changed since it was listed or read: it ends before byte 250000"):
        taken.extend(rows)
    assert taken == lines[: len(taken)]
