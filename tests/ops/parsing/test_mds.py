from __future__ import annotations

import base64
import json
import struct
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, FeedpipeError, StateError
from feedpipe.testing import check_operator, same

from ...readers.contents import mds
from ...support.examples import examples

GOLDEN = zlib.decompress(
    base64.b64decode(
        "eNp9kk1LwzAYx9MXZIgHD+pFDyXnMdrMifQy9eLd6xiltp2LtOloWmEbAz+YB8EP4cfRJy912eh84J88Sfr8n1/aOgihTwuhxEbowkHoG7TGSZ"
        "k3BYsylpQpZS8ch94EszSuqngZzvIyrockJP0h7nv4eVlnXCT6XKT6EZFSVovplZdMzAuai4nXlZ6iNEtoEbe7kSxtF7q47QzL4EZsNCqbQqpR"
        "WVxkCjOWUGJIJYqEkAiyv7SWgzzm8pzLB2SvxnTldKVcyXXfY02etyMsb3d3/h+JMi0WVcY5hVcR6gM8K6sCLhx6uEgl1zzmc9V0KslWWZTTgt"
        "bbkres0h5kA58PnYBOQZdIhQuCz4jOQUfocNz3LMtc/+hYY+E98RX8dAO/BrK159Pjg1kSDEa+P/ADvyNcqBH+QmcGomtIIPak0/u4SxYw2m0z"
        "A3bcJpo1OMBqGcG/PlLFS0ZdwIHriB62FEJXBnJv760eq+Z3XbJtYHb2mf8uIS61y04OsNtGCPYtfyc+cV2F74B+AULRvLU="
    )
)
"""A shard with three samples, written by `MDSWriter` of MosaicML Streaming 0.13."""


def encoded(first, count):
    return mds({"id": "str_int", "t": "str"}, [[b"%d" % i, b"x" * (i % 5)] for i in range(first, first + count)])


def listed(first, count):
    return [{"id": i, "t": "x" * (i % 5)} for i in range(first, first + count)]


def parsed(*files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_mds(**options)


def test_law(tmp_path):
    files, rows = [], []
    for number, count in enumerate([3, 0, 900, 1]):
        data = encoded(1000 * number, count)
        files.append(tmp_path / f"{number}.mds{'.zst' if number == 3 else ''}")
        files[-1].write_bytes(pa.Codec("zstd").compress(data, asbytes=True) if number == 3 else data)
        rows += listed(1000 * number, count)
    assert check_operator(parsed(*files), samples=6) == rows


def test_a_shard_of_mosaicml(tmp_path):
    (tmp_path / "a.mds").write_bytes(GOLDEN)
    rows = list(parsed(tmp_path / "a.mds", path_column="path"))
    for n, row in enumerate(rows):
        expected = {
            "a": np.full((2, 3), n, np.float32),
            "b": bytes([n]) * n,
            "d": np.arange(n + 1).reshape(1, n + 1),
            "f": np.float32(n / 2),
            "i": n - 1,
            "j": {"n": [n, None]},
            "p": np.full((2, 2, 3), n, np.uint8),
            "s": "süd" * n,
            "sd": Decimal("1.50"),
            "sf": n / 4,
            "si": 10**20 + n,
            "t": np.arange(n + 2, dtype=np.int16),
            "u": np.uint16(n),
            "path": str(tmp_path / "a.mds"),
        }
        assert same(row, expected)
        assert row["u"].dtype == "uint16" and row["d"].dtype == "int64" and row["t"].dtype == "int16"
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("pkl", "its encoding 'pkl' is not read; loading pickles runs code"),
        ("ndarray:int8:x", "its encoding 'ndarray:int8:x' is not read; th"),
        ("ndarray:int8:2,", "its encoding 'ndarray:int8:2,' is not read; th"),
        ("ndarray:object", "its encoding 'ndarray:object' is not read; th"),
        ("new:3", "its encoding 'new:3' is not read; th"),
    ],
)
def test_an_encoding_that_is_not_read(tmp_path, encoding, message):
    (tmp_path / "a.mds").write_bytes(mds({"x": encoding}, [[b"1"]]))
    with pytest.raises(DataError, match=rf"a\.mds, column 'x': {message}(.|\n)*test_mds\.py"):
        list(parsed(tmp_path / "a.mds"))


def test_no_shard(tmp_path):
    for content in (b"", json.dumps({"version": 2}).encode() * 9, struct.pack("<4I", 1, 12, 4, 0)):
        (tmp_path / "a.mds").write_bytes(content)
        with pytest.raises(
            DataError, match=r"a\.mds is no shard of MosaicML, is damaged, or is compressed in another way"
        ):
            list(parsed(tmp_path / "a.mds"))


@pytest.fixture
def shards(tmp_path):
    """One has no samples, and one has other columns."""
    for number, count in enumerate([3, 0, 90]):
        (tmp_path / f"{number}.mds").write_bytes(encoded(1000 * number, count))
    (tmp_path / "3.mds").write_bytes(mds({"id": "int"}, [[b"\x07"]]))
    return tmp_path


ALL = [*listed(0, 3), *listed(2000, 90), {"id": 7}]


def test_law_of_positions(shards):
    pipe = fp.read_mds(shards, indexed=True)
    assert check_operator(pipe, samples=4) == ALL
    assert len(pipe) == 94 and pipe[-1] == ALL[-1] and list(pipe[2:94:7]) == ALL[2:94:7]
    assert sorted(row["id"] for row in pipe.shuffle()) == sorted(row["id"] for row in ALL)
    assert ".parse_mds(indexed=True)" in repr(pipe)
    named = fp.read_mds(shards, indexed=True, path_column="path")
    assert named[3] == ALL[3] | {"path": str(shards / "2.mds")} and "path_column='path', indexed=True" in repr(named)
    assert list(fp.read_mds(shards, pattern="1*", indexed=True)) == []


def test_a_state_belongs_to_the_samples(shards):
    loader = fp.Loader(fp.read_mds(shards, indexed=True).shuffle())
    rows = iter(loader)
    head = [next(rows) for _ in range(40)]
    state = loader.state_dict()
    resumed = fp.Loader(fp.read_mds(shards, indexed=True).shuffle())
    resumed.load_state_dict(state)
    assert sorted(row["id"] for row in [*head, *resumed]) == sorted(row["id"] for row in ALL)
    (shards / "0.mds").write_bytes(encoded(0, 4))
    with pytest.raises(StateError):
        fp.Loader(fp.read_mds(shards, indexed=True).shuffle()).load_state_dict(state)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None)
def test_mutated_and_truncated_files(tmp_path, data):
    """Shards have no checksums: damage of values may go unseen. All else is an error that names the file."""
    whole = bytearray(data.draw(st.sampled_from([GOLDEN, encoded(0, 60)])))
    for _ in range(data.draw(st.integers(0, 2))):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    (tmp_path / "a.mds").write_bytes(whole[: data.draw(st.integers(0, len(whole)) | st.just(len(whole)))])
    for indexed in (False, True):
        try:
            list(parsed(tmp_path / "a.mds", indexed=indexed))
        except FeedpipeError as error:
            assert "a.mds" in str(error)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_shard_of_the_index_that_is_missing(tmp_path, indexed):
    """`index.json` of MosaicML's writer names each shard as it is and as it is compressed; either may be there."""
    (tmp_path / "a.mds").write_bytes(mds({"x": "str_int"}, [[b"1"], [b"2"]]))
    there = {"raw_data": {"basename": "a.mds"}, "zip_data": None}
    missing = {"raw_data": {"basename": "b.mds"}, "zip_data": {"basename": "b.mds.zstd"}}
    index = tmp_path / "index.json"
    for text in (json.dumps({"shards": [there]}), "no index of shards", json.dumps([there])):
        index.write_text(text)
        assert list(parsed(tmp_path / "a.mds", indexed=indexed)) == [{"x": 1}, {"x": 2}]
    index.write_text(json.dumps({"shards": [there, missing]}))
    with pytest.raises(fp.SourceError, match=r"index\.json names 'b\.mds', which is not there"):
        list(parsed(tmp_path / "a.mds", indexed=indexed))
