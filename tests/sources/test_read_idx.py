"""`read_idx`: files in the format of MNIST, mapped or compressed."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, SourceError
from feedpipe.testing import check_operator

from ..support.sources import ReadIdx

CODES = {"|u1": 0x08, "|i1": 0x09, ">i2": 0x0B, ">i4": 0x0C, ">f4": 0x0D, ">f8": 0x0E}


def encoded(array: np.ndarray[Any, Any], dtype: str = "|u1") -> bytes:
    head = bytes([0, 0, CODES[dtype], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(dtype).tobytes()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    images, labels = np.arange(21 * 6).reshape(21, 2, 3), np.arange(21) % 10
    (tmp_path / "images").write_bytes(encoded(images))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(encoded(labels)))
    return {"image": tmp_path / "images", "label": tmp_path / "labels.gz"}


def test_rows(files: dict[str, Path]) -> None:
    pipe = fp.read_idx(files)
    assert len(pipe) == 21
    assert pipe[4]["image"].tolist() == [[24, 25, 26], [27, 28, 29]]
    assert pipe[4]["label"] == 4
    rows = check_operator(pipe)
    assert len(rows) == 21
    check_operator(pipe.shuffle().batch(4).collate())
    batch = pipe.batch(4).collate()[0]
    assert batch["image"].shape == (4, 2, 3)
    assert str(batch["label"].dtype) == "torch.uint8"


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 2, 3, 1), (0, 4)])
@pytest.mark.parametrize("compressed", [False, True])
def test_types_and_shapes(tmp_path: Path, dtype: str, shape: tuple[int, ...], compressed: bool) -> None:
    array = (np.arange(np.prod(shape)) - (0 if "u" in dtype else 3)).reshape(shape)
    data = encoded(array, dtype)
    (tmp_path / "x").write_bytes(gzip.compress(data) if compressed else data)
    rows = check_operator(fp.read_idx({"x": tmp_path / "x"}))
    assert [np.asarray(row["x"]).tolist() for row in rows] == array.tolist()
    for pipe in (fp.read_idx({"x": tmp_path / "x"}), fp.read_idx({"x": tmp_path / "x"}).shuffle()):
        for batch in pipe.batch(5).collate():
            assert sorted(batch["x"].reshape(-1).tolist()) == sorted(array.reshape(-1).tolist())


def test_a_plain_file_is_mapped_and_read_only(files: dict[str, Path]) -> None:
    pipe = fp.read_idx(files)
    image = pipe[0]["image"]
    root = image
    while root.base is not None and not isinstance(root, np.memmap):
        root = root.base
    assert isinstance(root, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        image[0, 0] = 1


def test_gzip_is_decompressed_once(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = fp.read_idx(files)
    list(pipe)
    monkeypatch.setattr("feedpipe.sources.read_idx._read", None)
    list(pipe.shuffle())
    list(pipe)


def test_several_streams_of_gzip_in_one_file(tmp_path: Path) -> None:
    data = encoded(np.arange(9))
    (tmp_path / "x.gz").write_bytes(gzip.compress(data[:11]) + gzip.compress(data[11:]))
    assert [row["x"] for row in fp.read_idx({"x": tmp_path / "x.gz"})] == list(range(9))


def test_travels_as_paths(files: dict[str, Path]) -> None:
    pipe = fp.read_idx(files)
    list(pipe)
    sent = cloudpickle.dumps(pipe)
    assert len(sent) < 5_000
    assert [row["label"] for row in pickle.loads(sent)] == [row["label"] for row in pipe]


def test_identity_names_no_folder(files: dict[str, Path]) -> None:
    op = fp.read_idx(files)._stage().op
    assert isinstance(op, ReadIdx)
    assert op.identity() == {"image": ["images", "|u1", [21, 2, 3]], "label": ["labels.gz", "|u1", [21]]}


def test_an_error_names_file_and_row(files: dict[str, Path]) -> None:
    with pytest.raises(fp.RowError, match=r"images, row 4"):
        list(fp.read_idx(files).map(lambda row: 1 // (row["label"] - 3)))


def test_a_missing_file(tmp_path: Path) -> None:
    pipe = fp.read_idx({"x": tmp_path / "none"})
    with pytest.raises(SourceError, match="none is not there"):
        len(pipe)


WHOLE = encoded(np.arange(12).reshape(4, 3))
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "no IDX file: it begins with 0x,"),
    "another format": (b"PK\3\4 and so on", "no IDX file: it begins with 0x504b0304"),
    "an unknown type": (b"\0\0\x0a\1\0\0\0\0", "no IDX file"),
    "no axes": (b"\0\0\x08\0", "no IDX file"),
    "cut in the header": (WHOLE[:9], "truncated: it ends within the lengths of its 2 axes"),
    "cut in the data": (WHOLE[:-1], r"truncated: 4 x 3 items of uint8 make 24 bytes, and it has 23"),
    "too long": (WHOLE + b"\0", "longer than it says"),
    "gzip of another format": (gzip.compress(b"PK\3\4 and so on"), "no IDX file"),
    "gzip cut short": (gzip.compress(WHOLE)[:-12], "truncated"),
    "gzip cut to its header": (gzip.compress(WHOLE)[:12], "truncated"),
    "gzip of cut data": (gzip.compress(WHOLE[:-1]), "truncated"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_files(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        len(fp.read_idx({"x": tmp_path / "x"}))
    assert str(tmp_path / "x") in str(caught.value)


def test_damage_inside_gzip(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(encoded(np.random.default_rng(0).integers(0, 255, 10_000))))
    data[5000] ^= 0xFF
    (tmp_path / "x.gz").write_bytes(data)
    with pytest.raises(DataError, match=r"x\.gz is truncated or damaged"):
        list(fp.read_idx({"x": tmp_path / "x.gz"}))


def test_lengths_that_differ(tmp_path: Path) -> None:
    for name, count in (("a", 3), ("b", 4)):
        (tmp_path / name).write_bytes(encoded(np.arange(count)))
    with pytest.raises(DataError, match=r"'a' has 3 rows \(.*a\) and 'b' 4 \(.*b\)") as caught:
        len(fp.read_idx({"a": tmp_path / "a", "b": tmp_path / "b"}))
    assert __file__ in str(caught.value)


def test_a_file_that_changed_after_its_header_was_read(files: dict[str, Path]) -> None:
    pipe = fp.read_idx(files)
    assert len(pipe) == 21
    files["image"].write_bytes(encoded(np.zeros((20, 2, 3))))
    with pytest.raises(SourceError, match="images has changed"):
        list(pipe)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("path", ArgumentTypeError, "must be a dict of paths"),
        ({}, ArgumentError, "at least one path"),
        ({"x": 3}, ArgumentTypeError, "'x': 3"),
        ({1: "path"}, ArgumentTypeError, "1: 'path'"),
    ],
)
def test_bad_arguments(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        fp.read_idx(value)
    assert __file__ in str(caught.value)
