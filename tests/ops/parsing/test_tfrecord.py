from __future__ import annotations

import gzip
import struct

import google_crc32c
import pyarrow as pa
import pytest
import tfrecord
from tfrecord.tools.tfrecord2idx import create_index

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator

from ...formats.test_tfrecord import framed
from ...support.files import BYTES, INTS, masked, write_example, write_feature


def encoded(first: int, count: int) -> bytes:
    return b"".join(
        framed(
            write_example({b"id": write_feature(INTS, [number]), b"words": write_feature(BYTES, [b"w"] * (number % 3))})
        )
        for number in range(first, first + count)
    )


def expected(first: int, count: int) -> list[dict[str, object]]:
    return [{"id": number, "words": [b"w"] * (number % 3)} for number in range(first, first + count)]


def parsed(*files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_tfrecord(**options)


def test_a_record_that_claims_too_much_is_not_read(tmp_path):
    """Its content may follow: a compressed file of a few bytes holds any number of them."""
    length = struct.pack("<Q", 3 << 30)
    head = length + struct.pack("<I", masked(google_crc32c.value(length)))
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(encoded(0, 1) + head + bytes(2**21)))
    rows = iter(parsed(tmp_path / "a.tfrecord.gz"))
    assert next(rows) == expected(0, 1)[0]
    with pytest.raises(
        DataError, match=r"begins here would take 3221225488 bytes, and the limit of a row is 2147483648"
    ):
        next(rows)


def test_files_of_a_peer(tmp_path):
    """Written by the package `tfrecord`, and ours read by it."""
    writer = tfrecord.TFRecordWriter(str(tmp_path / "a.tfrecord"))
    for n in range(50):
        writer.write({"b": (b"x" * n, "byte"), "f": ([n / 2, n], "float"), "i": (n - 9, "int"), "e": ([], "int")})
    writer.close()
    rows = list(parsed(tmp_path / "a.tfrecord"))
    assert rows == [{"b": b"x" * n, "f": [n / 2, n], "i": n - 9, "e": []} for n in range(50)]
    fp.write_tfrecord(fp.from_sequence(rows), tmp_path / "ours")
    peer = tfrecord.tfrecord_loader(str(tmp_path / "ours" / "part-00000.tfrecord"), None, {"i": "int", "f": "float"})
    assert [(row["i"].tolist(), row["f"].tolist()) for row in peer] == [([r["i"]], r["f"]) for r in rows]


def test_types_of_features(tmp_path):
    image = [float(number) for number in range(6)]
    pipe = fp.from_sequence([{"image": image, "label": 3, "name": "süd", "tags": ["a", "b"]}] * 5)
    fp.write_tfrecord(pipe, tmp_path)
    read = fp.read_tfrecord(
        tmp_path / "part-00000.tfrecord",
        features={
            "tags": pa.list_(pa.string()),
            "label": "int8",
            "image": pa.fixed_shape_tensor(pa.float32(), [2, 3]),
            "name": "string",
            "none": "int64",
        },
    )
    row = read.head(1)[0]
    assert row["image"].shape == (2, 3) and row["image"].dtype == "float32"
    assert row | {"image": 0} == {"tags": ["a", "b"], "label": 3, "image": 0, "name": "süd", "none": None}
    assert read.schema.field("label").type == pa.int8()
    assert read.select("image", "label").batch(2).collate().head(1)[0]["image"].shape == (2, 2, 3)
    grid = fp.read_tfrecord(tmp_path / "part-00000.tfrecord", features={"image": pa.list_(pa.float64(), 6)})
    assert grid.head(1) == [{"image": image}]
    assert list(fp.read_tfrecord(tmp_path / "part-00000.tfrecord", features=["label"])) == [{"label": 3}] * 5


@pytest.mark.parametrize(
    ("values", "features", "message"),
    [
        ([[1]] * 3 + [[1, 2]], {"x": "int64"}, r"feature 'x' has 2 values, which do not fit int64"),
        ([[1, 2]] * 3 + [[1]], {"x": pa.list_(pa.int64(), 2)}, r"feature 'x' has 1 values"),
        ([[1]] * 3 + [[300]], {"x": "int8"}, r"feature 'x' holds ints, which do not fit int8"),
        ([b"a"] * 3 + [b"\xff"], {"x": "string"}, r"feature 'x' holds bytes, which do not fit string"),
    ],
)
def test_a_value_that_does_not_fit(tmp_path, values, features, message):
    made = (write_feature(BYTES, [x]) if isinstance(x, bytes) else write_feature(INTS, x) for x in values)
    data = b"".join(framed(write_example({b"x": feature})) for feature in made)
    (tmp_path / "a.tfrecord").write_bytes(data)
    parsed_rows = []
    with pytest.raises(DataError, match=rf"a\.tfrecord, the record at byte \d+: {message}(.|\n)*test_tfrecord\.py:\d+"):
        parsed_rows.extend(parsed(tmp_path / "a.tfrecord", features=features))
    assert len(parsed_rows) == 3


def test_no_example(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(encoded(0, 3) + framed(b"\x12\x00") + encoded(3, 3))
    rows = []
    with pytest.raises(DataError, match=r"record at byte \d+: .* as a SequenceExample has"):
        rows.extend(parsed(tmp_path / "a.tfrecord", features=["id"]).take(9))
    (tmp_path / "b.tfrecord").write_bytes(b"PNG" * 99)
    with pytest.raises(DataError, match=r"byte 0: .* has a wrong checksum; is this a TFRecord file"):
        list(parsed(tmp_path / "b.tfrecord"))


def indexed(folder, **options):
    return fp.read_tfrecord(folder, features={"id": "int64", "words": pa.list_(pa.binary())}, indexed=True, **options)


@pytest.fixture
def with_indexes(tmp_path):
    """Files with an index of each name, made by the package `tfrecord`; one has no records."""
    for number, (name, count) in enumerate([("a.index", 3), ("b.tfrecord.idx", 90), ("c.index", 0), ("d.index", 7)]):
        file = tmp_path / f"{name[0]}.tfrecord"
        file.write_bytes(encoded(100 * number, count))
        create_index(str(file), str(tmp_path / name))
    return tmp_path


ALL = [*expected(0, 3), *expected(100, 90), *expected(300, 7)]


def test_law_of_indexed_files(with_indexes):
    pipe = indexed(with_indexes)
    assert check_operator(pipe, samples=4) == ALL
    assert len(pipe) == 100 and pipe[-1] == ALL[-1] and list(pipe[2:95:7]) == ALL[2:95:7]
    assert sorted(row["id"] for row in pipe.shuffle()) == [row["id"] for row in ALL]
    assert list(pipe.batch(64).head(1)[0]) == ALL[:64]
    # Indexes among the files are left out.
    assert list(fp.read_tfrecord(with_indexes, features=["id"])) == [{"id": row["id"]} for row in ALL]
    assert "indexed=True" in repr(pipe)


@pytest.mark.parametrize("place", [0, 20])
def test_damage_in_an_indexed_file(with_indexes, place):
    data = bytearray((with_indexes / "b.tfrecord").read_bytes())
    at = len(encoded(100, 50))
    data[at + place] ^= 1
    (with_indexes / "b.tfrecord").write_bytes(data)
    message = "wrong checksum" if place else "length is not that of the index"
    with pytest.raises(
        DataError, match=rf"b\.tfrecord, the record at byte {at}: its .*{message}(.|\n)*tfrecord\.py:\d"
    ):
        list(indexed(with_indexes))
    assert indexed(with_indexes)[52] == ALL[52] and indexed(with_indexes)[54] == ALL[54]
    loader = fp.Loader(indexed(with_indexes, on_error="skip").shuffle())
    if not place:
        with pytest.raises(DataError, match="length is not that of the index"):
            list(loader)
        return
    assert sorted(row["id"] for row in loader) == [row["id"] for row in ALL if row["id"] != 150]
    assert sum(loader.skipped.values()) == 1
    check_operator(indexed(with_indexes, on_error="skip"), samples=2)


def test_indexes_that_cannot_be_used(with_indexes):
    (with_indexes / "a.index").rename(with_indexes / "a.tfrecord.index")
    with pytest.raises(
        ArgumentError, match=r"needs an index beside .*a\.tfrecord, and there is neither .*a\.index nor"
    ):
        list(indexed(with_indexes / "a.tfrecord"))
    for content, message in ((b"0 5\n", "make it again"), (b"", "make it again"), (b"a b\n", "two numbers in")):
        (with_indexes / "d.index").write_bytes(content)
        with pytest.raises(DataError, match=rf"d\.index .*{message}"):
            list(indexed(with_indexes / "d.tfrecord"))
    (with_indexes / "a.tfrecord.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(ArgumentError, match=r"a\.tfrecord\.gz is compressed"):
        list(indexed(with_indexes / "*.gz"))
    with pytest.raises(ArgumentError, match="put the `shuffle` after `parse_tfrecord` instead"):
        fp.list_files(with_indexes).shuffle().open_files().parse_tfrecord(indexed=True)
