from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import SourceError
from feedpipe.testing import check_operator

from ..support.files import ranges as _byte_ranges


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(_byte_ranges, "MAX_RANGE_BYTES", 400)
    numbers = fp.from_sequence(range(120)).map(lambda i: {"x": i, "y": i / 2})
    fp.write_tfrecord(numbers, tmp_path, rows_per_file=50)
    return tmp_path


def rows(count):
    return [{"x": i, "y": i / 2} for i in range(count)]


def test_law(folder):
    assert check_operator(fp.read_tfrecord(folder / "*.tfrecord")) == rows(120)


def test_every_argument_arrives(tmp_path):
    deep = tmp_path / "part=3"
    fp.write_tfrecord(fp.from_sequence(rows(3)), deep, compression="gzip")
    (deep / "part-00000.tfrecord.gz").rename(deep / "a.dat")
    (deep / "a.txt").write_bytes(b"not this")
    pipe = fp.read_tfrecord(
        tmp_path,
        pattern="*.dat",
        recursive=True,
        compression="gzip",
        features=["y", "part"],
        path_column="path",
        row_column="row",
    )
    path = str(deep / "a.dat")
    assert check_operator(pipe) == [{"y": i / 2, "part": 3, "path": path, "row": i} for i in range(3)]


def test_shown_as_the_chain_that_it_is():
    assert repr(fp.read_tfrecord("data/*.tfrecord", features=["x"])) == (
        "fp.list_files('data/*.tfrecord').open_files().parse_tfrecord(features=['x'])"
    )


def test_bad_input(tmp_path):
    with pytest.raises(SourceError, match=r"none is not there(.|\n)*test_read_tfrecord\.py"):
        list(fp.read_tfrecord(tmp_path / "none"))
