from __future__ import annotations

import io

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ...support.files import _read_head, _read_long, _write_long
from ...support.files import ranges as _byte_ranges
from ...support.formats import StreamWindow

MARKER = bytes(range(100, 116))


def schema(*fields):
    return {"type": "record", "name": "row", "fields": [*fields]}


ID, TEXT = {"name": "id", "type": "int"}, {"name": "t", "type": ["null", "string"]}


def encoded(rows, codec="null", fields=(ID, TEXT), interval=100):
    sink = io.BytesIO()
    fastavro.writer(sink, schema(*fields), rows, codec=codec, sync_interval=interval, sync_marker=MARKER)
    return sink.getvalue()


def listed(first, count):
    return [{"id": i, "t": None if i % 3 == 0 else str(i)} for i in range(first, first + count)]


def parsed(*files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_avro(**options)


@pytest.mark.parametrize("size", [64, 200, 1000, 2**30])
def test_law(tmp_path, monkeypatch, size):
    monkeypatch.setattr(_byte_ranges, "MAX_RANGE_BYTES", size)
    files, rows = [], []
    for number, count in enumerate([3, 0, 90, 1]):
        files.append(tmp_path / f"{number}.avro")
        files[-1].write_bytes(encoded(listed(100 * number, count), "deflate" if number == 3 else "null"))
        rows += listed(100 * number, count)
    assert check_operator(parsed(*files), samples=6) == rows
    loader = fp.Loader(parsed(*files), shards=3)
    assert sorted(row["id"] for row in loader) == [row["id"] for row in rows]


def recoded(data, codec, compress):
    """The file with blocks of another codec, for fastavro lacks the packages that these need."""
    head = _read_head(StreamWindow(io.BytesIO(data), "a.avro"), "a.avro")
    parts = [data[: head.size].replace(b"\x08null", _write_long(len(codec)) + codec.encode())]
    at = head.size
    while at < len(data):
        count, at = _read_long(data, at)
        size, at = _read_long(data, at)
        block = compress(data[at : at + size])
        parts += [_write_long(count), _write_long(len(block)), block, head.marker]
        at += size + 16
    return b"".join(parts)


def snappy(data):
    import zlib

    return pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_codecs(tmp_path, codec):
    own = {"snappy": snappy, "zstandard": lambda data: pa.Codec("zstd").compress(data, asbytes=True)}
    data = recoded(encoded(listed(0, 50)), codec, own[codec]) if codec in own else encoded(listed(0, 50), codec)
    (tmp_path / "a.avro").write_bytes(data)
    assert list(parsed(tmp_path / "a.avro")) == listed(0, 50)


def test_another_schema(tmp_path):
    """Avro's rules turn records into the schema of the first file."""
    (tmp_path / "a.avro").write_bytes(
        encoded([{"id": 1, "t": "x"}], fields=({**ID, "type": "long"}, {**TEXT, "default": None}))
    )
    (tmp_path / "b.avro").write_bytes(
        encoded([{"more": 1.5, "id": 2}], fields=({"name": "more", "type": "double"}, ID))
    )
    assert list(parsed(tmp_path / "a.avro", tmp_path / "b.avro")) == [{"id": 1, "t": "x"}, {"id": 2, "t": None}]
    (tmp_path / "c.avro").write_bytes(encoded([{"id": "text"}], fields=({"name": "id", "type": "string"},)))
    rows = []
    with pytest.raises(DataError, match=r"c\.avro, byte \d+: .*in the schema of .*a\.avro, cannot be read: SchemaRes"):
        rows.extend(parsed(tmp_path / "a.avro", tmp_path / "c.avro"))
    assert rows == [{"id": 1, "t": "x"}]


def test_no_avro_and_no_package(tmp_path, monkeypatch):
    for content in (b"", b"x,y\n1,2\n"):
        (tmp_path / "a.avro").write_bytes(content)
        with pytest.raises(DataError, match=r"a\.avro is no Avro file(.|\n)*test_avro\.py"):
            list(parsed(tmp_path / "a.avro"))
    monkeypatch.setattr("feedpipe.core.checks.find_spec", lambda name: None)
    with pytest.raises(
        ArgumentError, match=r"package fastavro, which is not installed; `pip install 'feedpipe\[avro\]"
    ):
        parsed()


NULLS = {"type": "array", "items": "null"}
EMPTY = {"type": "record", "name": "empty", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    "kind", [NULLS, {"type": "array", "items": EMPTY}, {"type": "map", "values": NULLS}, ["null", NULLS]]
)
def test_lists_of_items_without_bytes_are_refused(tmp_path, kind):
    """A few bytes may claim any number of them."""
    (tmp_path / "a.avro").write_bytes(encoded([], fields=[{"name": "a", "type": kind}]))
    with pytest.raises(DataError, match=r"a\.avro: its schema cannot be read: .*a list of items that take no bytes"):
        list(parsed(tmp_path / "a.avro"))


def test_records_without_bytes_are_limited(tmp_path):
    """A few bytes may claim any number of them. The block is skipped as one row."""
    good = encoded([{"a": None}], fields=[{"name": "a", "type": "null"}])
    assert good.count(MARKER) == 2
    block = b"".join([_write_long(2**50), _write_long(0), MARKER])
    end = good.index(MARKER) + len(MARKER)
    (tmp_path / "a.avro").write_bytes(good + block + good[end:])
    with pytest.raises(DataError, match=rf"a\.avro, byte {len(good)}: the block that begins here cannot be read: "):
        list(parsed(tmp_path / "a.avro"))
    (first, second) = parsed(tmp_path / "a.avro", on_error="skip")
    assert first == second == {"a": None}


@given(
    st.recursive(
        st.sampled_from(["null", "boolean", "int", "double", "bytes", "string"]),
        lambda kinds: st.one_of(
            kinds.filter(lambda kind: kind != "null").map(lambda kind: {"type": "array", "items": kind}),
            kinds.map(lambda kind: {"type": "map", "values": kind}),
            kinds.filter(lambda kind: kind != "null").map(lambda kind: ["null", kind]),
        ),
        max_leaves=4,
    ),
    st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50), deadline=None)
def test_any_schema_is_read_as_it_was_written(tmp_path, kind, data):
    fields = [{"name": "a", "type": kind}]
    rows = data.draw(st.lists(st.fixed_dictionaries({"a": values(kind)}), max_size=5))
    (tmp_path / "a.avro").write_bytes(encoded(rows, fields=fields))
    assert list(parsed(tmp_path / "a.avro")) == rows


def values(kind):
    """Values of a type."""
    if isinstance(kind, list):
        return st.one_of(*map(values, kind))
    if isinstance(kind, dict):
        of = values(kind["items" if kind["type"] == "array" else "values"])
        return st.lists(of, max_size=3) if kind["type"] == "array" else st.dictionaries(st.text(), of, max_size=3)
    plain = {"null": st.none(), "boolean": st.booleans(), "int": st.integers(-(2**31), 2**31 - 1)}
    more = {"double": st.floats(allow_nan=False), "bytes": st.binary(), "string": st.text()}
    return {**plain, **more}[kind]


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_blocks_are_limited_once_they_are_decompressed(tmp_path, monkeypatch, codec):
    monkeypatch.setattr("feedpipe.formats.streams._MAX_UNPACKED_BYTES", 100)
    monkeypatch.setattr("feedpipe.formats.streams._MAX_RATIO", 1)
    own = {"snappy": snappy, "zstandard": lambda data: pa.Codec("zstd").compress(data, asbytes=True)}
    rows = [{"id": 1, "t": "x" * 1000}]
    data = recoded(encoded(rows), codec, own[codec]) if codec in own else encoded(rows, codec)
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(DataError, match="cannot be decompressed: 0 MiB or more unpack from"):
        list(parsed(tmp_path / "a.avro"))


NODE = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}
ITSELF = {"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}]}


def test_records_that_hold_others_of_their_kind(tmp_path):
    rows = [{"next": None}, {"next": {"next": {"next": None}}}]
    sink = io.BytesIO()
    fastavro.writer(sink, NODE, rows, sync_marker=MARKER)
    (tmp_path / "a.avro").write_bytes(sink.getvalue())
    assert list(parsed(tmp_path / "a.avro")) == rows


@pytest.mark.parametrize(("kind", "data"), [(ITSELF, bytes(100)), (NODE, bytes([2]) * 100_000 + bytes(1))])
def test_records_nested_without_end_are_an_error_and_do_not_overflow_the_stack(tmp_path, kind, data):
    sink = io.BytesIO()
    fastavro.writer(sink, kind, [], sync_marker=MARKER)
    block = _write_long(1) + _write_long(len(data)) + data + MARKER
    (tmp_path / "a.avro").write_bytes(sink.getvalue() + block)
    with pytest.raises(DataError, match="nested too deeply"):
        list(parsed(tmp_path / "a.avro"))
