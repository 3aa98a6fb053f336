"""Parquet files that are damaged, encrypted, missing or replaced."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.parquet import encryption

import feedpipe as fp
from feedpipe.errors import DataError, FeedpipeError, SourceError

from ...storage.remote_store import RemoteStore
from ...support.examples import examples
from .parquet_files import counted, data_of, parsed, write


def test_a_file_of_another_footer_is_noticed_though_the_footer_is_kept(tmp_path):
    files = counted(tmp_path, [30, 30], rows=10)
    pipe = parsed(files)
    assert len(list(pipe)) == 60
    other = write(tmp_path / "other.parquet", {"id": range(30, 60), "t": ["y"] * 30}, 15)
    os.replace(other, files[1])
    with pytest.raises(SourceError, match=r"1\.parquet has changed since its footer was read"):
        list(pipe)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, but a Parquet file has a footer"),
        (b"PAR1", r"is damaged: its footer would be longer than the file"),
        (b"id,t\n1,x\n", "is no Parquet file, or is cut short: it does not end with 'PAR1'"),
        (data_of({"id": range(99)})[:-7], "is no Parquet file, or is cut short"),
        (b"PAR1" + b"x" * 20 + (20).to_bytes(4, "little") + b"PAR1", "its footer, is damaged"),
        (data_of({"id": range(99)})[:-4] + b"PARE", "is encrypted: its footer cannot be read without a key"),
    ],
)
def test_files_that_are_not_parquet(tmp_path, content, message):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=f"a.parquet,? {message}") as error:
        list(parsed([tmp_path / "a.parquet"]))
    assert "parquet_files.py" in str(error.value)  # where the chain is written


def test_a_file_with_encrypted_columns(tmp_path):
    class Plain(encryption.KmsClient):
        def __init__(self, config):
            super().__init__()

        def wrap_key(self, key, name):
            return key.hex()

        def unwrap_key(self, key, name):
            return bytes.fromhex(key)

    factory = encryption.CryptoFactory(Plain)
    config = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["id"]}, plaintext_footer=True)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    path = write(tmp_path / "a.parquet", {"id": [1.0], "t": ["x"]}, encryption_properties=properties)
    with pytest.raises(DataError, match="a.parquet.* is encrypted, and cannot be read without a key"):
        list(parsed([path]))
    assert list(parsed([path], columns=["t"])) == [{"t": "x"}]
    # None of these may ask pyarrow for the metadata of an encrypted column: that ends the process.
    assert list(parsed([path], columns=["t"], filter=pc.field("t") == "x")) == [{"t": "x"}]
    with pytest.raises(DataError, match="is encrypted, and cannot be read without a key"):
        list(parsed([path], filter=pc.field("id") > 0))
    store = RemoteStore({"d/a.parquet": Path(path).read_bytes()})
    assert list(fp.read_parquet("d", columns=["t"], filesystem=store.filesystem)) == [{"t": "x"}]
    fp.index(tmp_path, tmp_path / "f.index", pattern="*.parquet")


@given(st.lists(st.none() | st.integers(-62 * 10**9, 253 * 10**9), min_size=1, max_size=9), st.booleans())
def test_timestamps_of_96_bits_are_right_or_an_error(tmp_path_factory, seconds, nested):
    path = str(tmp_path_factory.mktemp("int96") / "a.parquet")
    times = pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp("us"))
    column = pa.array([[time] for time in times.to_pylist()], pa.list_(times.type)) if nested else times
    pq.write_table(pa.table({"t": column}), path, use_deprecated_int96_timestamps=True, row_group_size=4)
    fits = all(second is None or abs(second) < 2**63 // 10**9 for second in seconds)
    if not fits:
        with pytest.raises(DataError, match="column 't': a timestamp of 96 bits lies before 1677 or after 2262"):
            list(fp.read_parquet(path))
        return
    rows = [row["t"] for row in fp.read_parquet(path)]
    assert [row[0] if nested else row for row in rows] == times.to_pylist()


GOOD = data_of({"id": range(300), "t": [str(i % 7) for i in range(300)], "f": [i / 7 for i in range(300)]}, 100)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150), deadline=None)
def test_damaged_bytes_give_an_error_or_rows(tmp_path, data):
    content = bytearray(GOOD)
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.parquet").write_bytes(content)
    try:
        rows = list(parsed([tmp_path / "a.parquet"]))
    except FeedpipeError:
        return
    assert bytes(content) != GOOD or [row["id"] for row in rows] == list(range(300))


def test_a_page_that_fails_its_checksum(tmp_path):
    table = {"x": np.random.default_rng(0).normal(size=1000)}
    content = bytearray(data_of(table, write_page_checksum=True, compression="none", use_dictionary=False))
    content[4000] ^= 1
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match="row group 0, is damaged"):
        list(parsed([tmp_path / "a.parquet"]))
