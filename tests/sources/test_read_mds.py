from __future__ import annotations

import json

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


@pytest.mark.parametrize("indexed", [False, True])
def test_a_shard_of_the_index_that_is_missing(folder, indexed):
    """`index.json` of MosaicML's writer names each shard as it is and as it is compressed; either may be there."""
    names = sorted(path.name for path in folder.rglob("*.mds*") if path.parent == folder)
    shards = [{"raw_data": {"basename": name}, "zip_data": None} for name in names]
    index = folder / "index.json"
    index.write_text(json.dumps({"version": 2, "shards": shards}))
    paths = [folder / name for name in names if name.endswith(".mds")]
    expected = list(fp.read_mds(paths, indexed=indexed))
    missing = {"raw_data": {"basename": "shard.00009.mds"}, "zip_data": {"basename": "shard.00009.mds.zstd"}}
    index.write_text(json.dumps({"version": 2, "shards": [*shards, missing]}))
    with pytest.raises(fp.SourceError, match=r"index\.json names 'shard\.00009\.mds', which is not there"):
        list(fp.read_mds(paths, indexed=indexed))
    index.write_text("no index of shards")
    assert list(fp.read_mds(paths, indexed=indexed)) == expected
