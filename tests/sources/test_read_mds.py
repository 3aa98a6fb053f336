from __future__ import annotations

import fsspec
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import SourceError
from feedpipe.testing import check_operator

from ..readers.contents import mds


def rows(first, count):
    return [{"x": number} for number in range(first, first + count)]


@pytest.fixture
def folder(tmp_path):
    for name, first in (("shard.00001.mds", 90), ("shard.00000.mds", 0)):
        (tmp_path / name).write_bytes(mds({"x": "str_int"}, [[b"%d" % number] for number in range(first, first + 90)]))
    (tmp_path / "index.json").write_text("{}")
    return tmp_path


def test_law(folder):
    assert check_operator(fp.read_mds(folder), samples=6) == rows(0, 180)


def test_every_argument_arrives(folder):
    deep = folder / "deep"
    deep.mkdir()
    data = (folder / "shard.00000.mds").read_bytes()
    (deep / "a.zstd").write_bytes(pa.Codec("zstd").compress(data, asbytes=True))
    pipe = fp.read_mds(folder, pattern="*.zstd", recursive=True, compression="zstd", path_column="path")
    assert list(pipe) == [{**row, "path": str(deep / "a.zstd")} for row in rows(0, 90)]
    memory = fsspec.filesystem("memory")
    memory.pipe("/read_mds/a.mds", data)
    assert list(fp.read_mds("/read_mds", filesystem=memory)) == rows(0, 90)
    memory.rm("/read_mds", recursive=True)


def test_bad_input(tmp_path):
    with pytest.raises(SourceError, match=r"none is not there(.|\n)*test_read_mds\.py"):
        list(fp.read_mds(tmp_path / "none"))
