from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import SourceError
from feedpipe.testing import check_operator


def test_law(tmp_path):
    (tmp_path / "b.txt").write_text("three\n\nfour")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert check_operator(fp.read_lines(tmp_path)) == ["one", "two", "three", "", "four"]


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
