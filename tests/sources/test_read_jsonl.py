from __future__ import annotations

import gzip

import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.testing import check_operator


def test_law(tmp_path):
    (tmp_path / "b.jsonl").write_text('{"x": 2}\n{"x": 3}\n')
    (tmp_path / "a.jsonl").write_text('{"x": 0}\n{"x": 1}')
    assert check_operator(fp.read_jsonl(tmp_path)) == [{"x": i} for i in range(4)]


def test_every_argument_arrives(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.dat").write_bytes(gzip.compress(b'{"x": 1, "y": 2, "z": 3}\n'))
    (tmp_path / "deep" / "a.txt").write_bytes(b"not this")
    pipe = fp.read_jsonl(
        tmp_path,
        pattern="*.dat",
        recursive=True,
        compression="gzip",
        schema={"y": "float64"},
        columns=["y", "x"],
        path_column="path",
        row_column="row",
    )
    assert list(pipe) == [{"y": 2.0, "x": 1, "path": str(tmp_path / "deep" / "a.dat"), "row": 0}]
    assert next(iter(pipe.batch(1))).arrow.schema.names == ["y", "x", "path", "row"]


def test_shown_as_the_chain_that_it_is():
    assert repr(fp.read_jsonl("a.jsonl")) == "fp.list_files('a.jsonl').open_files().parse_jsonl()"


def test_bad_input(tmp_path):
    with pytest.raises(SourceError, match="is not there"):
        list(fp.read_jsonl(tmp_path / "none"))
    (tmp_path / "a.jsonl").write_text('{"x": 0}\n{')
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: this is not JSON(.|\n)*test_read_jsonl\.py"):
        list(fp.read_jsonl(tmp_path))
