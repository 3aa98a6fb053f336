from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, RowError

PIXELS = np.random.default_rng(7).integers(0, 256, (5, 6, 3), np.uint8)


def rows(count: int, **values: object) -> fp.Pipe[dict[str, object]]:
    return fp.from_sequence(range(count)).map(lambda i: {"__key__": f"train/{i:06}", "cls": i, **values})


def members(path: str | Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]


def entries(manifest: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(manifest).read_text().splitlines()[1:]]


def written(tmp_path: Path, row: dict[str, object], **options: Any) -> dict[str, bytes]:
    fp.write_tar(fp.from_sequence([{"__key__": "k", **row}]), tmp_path, **options)
    return members(tmp_path / "part-00000.tar")


def test_rows_are_members(tmp_path: Path) -> None:
    manifest = fp.write_tar(rows(5, txt="é"), tmp_path, rows_per_file=3)
    assert manifest == f"{tmp_path}/_manifest.jsonl"
    assert [(entry["path"], entry["rows"]) for entry in entries(manifest)] == [
        ("part-00000.tar", 3), ("part-00001.tar", 2),
    ]  # fmt: skip
    assert members(tmp_path / "part-00001.tar") == {
        "train/000003.cls": b"3", "train/000003.txt": "é".encode(),
        "train/000004.cls": b"4", "train/000004.txt": "é".encode(),
    }  # fmt: skip
    fp.verify(manifest)


def test_rows_come_back(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "png": PIXELS,
        "mask.png": PIXELS[:, :, 0],
        "json": {"a": [1, None], "ä": "ö"},
        "txt": "süd\n",
        "npy": np.arange(6).reshape(2, 3).T,
        "bin": b"\0\xff",
    }
    fp.write_tar(rows(40, **row), tmp_path, file_size="50KB")
    assert len(os.listdir(tmp_path)) > 3
    back = list(fp.read_tar(tmp_path).decode())
    assert [(r["__key__"], r["cls"]) for r in back] == [(f"train/{i:06}", i) for i in range(40)]
    for name in ("json", "txt", "bin"):
        assert all(r[name] == row[name] for r in back)
    np.testing.assert_array_equal(back[-1]["png"], PIXELS)
    np.testing.assert_array_equal(back[-1]["mask.png"], np.repeat(PIXELS[:, :, :1], 3, axis=2))
    np.testing.assert_array_equal(back[-1]["npy"], row["npy"])


@given(st.lists(st.integers(0, 3000), max_size=30), st.integers(1, 40_000))
@example([512] * 10, 19_968)
def test_no_file_exceeds_file_size(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], file_size: int) -> None:
    folder = tmp_path_factory.mktemp("out")
    pipe = fp.from_sequence([{"__key__": str(i), "bin": bytes(size)} for i, size in enumerate(sizes)])
    files = entries(fp.write_tar(pipe, folder, file_size=file_size))
    assert all(entry["bytes"] <= file_size or entry["rows"] <= 1 for entry in files)
    assert sum(entry["rows"] for entry in files) == len(sizes)
    for entry in files:
        assert entry["bytes"] == os.path.getsize(folder / entry["path"]) and entry["bytes"] % 10240 == 0
    assert [len(data) for entry in files for data in members(folder / entry["path"]).values()] == sizes


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("cls", 7, b"7"),
        ("cls", np.int64(7), b"7"),
        ("txt", "süd", "süd".encode()),
        ("json", {"a": [1, "ö"]}, '{"a": [1, "ö"]}'.encode()),
        ("json", "text", b'"text"'),
        ("json", b"{}", b"{}"),
        ("seg.json", None, b"null"),
        ("anything", bytearray(b"ab"), b"ab"),
        ("anything", memoryview(b"ab"), b"ab"),
        ("jpg", b"no image", b"no image"),
    ],
)
def test_values(tmp_path: Path, name: str, value: object, data: bytes) -> None:
    assert written(tmp_path, {name: value}) == {f"k.{name}": data}


@pytest.mark.parametrize("kind", ["png", "bmp", "ppm", "tif", "tiff", "webp"])
@pytest.mark.parametrize("value", [PIXELS, Image.fromarray(PIXELS)])
def test_images_lose_nothing(tmp_path: Path, kind: str, value: object) -> None:
    (data,) = written(tmp_path, {kind: value}).values()
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), PIXELS)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "`__key__` of a row must be a string, the name of its members, but is: None"),
        (7, "`__key__` of a row must be a string"),
        ("", "`__key__` must be a relative path"),
        ("/etc/passwd", "`__key__` must be a relative path"),
        ("a/../../b", "`__key__` must be a relative path"),
        ("a//b", "`__key__` must be a relative path"),
        ("a/", "`__key__` must be a relative path"),
        ("./a", "`__key__` must be a relative path"),
        ("a\0b", "`__key__` must be a relative path"),
        ("a.b/c.d", "`__key__` must have no dot after its last slash"),
        ("__meta__/a", "`__key__` must not begin as in `__meta__`"),
    ],
)
def test_keys(tmp_path: Path, key: object, message: str) -> None:
    with pytest.raises(RowError, match="on from_sequence, row 1(.|\n)*at .*test_write_tar.py") as error:
        fp.write_tar(fp.from_sequence([{"__key__": key, "bin": b""}]), tmp_path)
    assert message in str(error.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "row 'k' has no values besides its key"),
        ({"JPG": b""}, "must have extensions in lower case, such as 'jpg' or 'seg.png', but has: 'JPG'"),
        ({"a/b": b""}, "must have extensions in lower case"),
        ({".jpg": b""}, "must have extensions in lower case"),
        ({"": b""}, "must have extensions in lower case"),
        ({3: b""}, "must have extensions in lower case"),
        ({"x": 3}, "`x` of row 'k' cannot be encoded: it is of type int, and only bytes can be written as 'x' unless"),
        ({"cls": "3"}, "`cls` of row 'k' cannot be encoded: it must be an int but is of type str"),
        ({"cls": 0.5}, "it must be an int but is of type float"),
        ({"txt": 3}, "it must be a string but is of type int"),
        ({"json": {1, 2}}, "`json` of row 'k' cannot be encoded"),
        ({"npy": np.array([object()])}, "`npy` of row 'k' cannot be encoded: Object arrays cannot be saved"),
        (
            {"jpg": np.zeros((4, 4, 3))},
            "it must be uint8 of height x width, with 1, 3 or 4 channels last, but is float64",
        ),
        ({"jpg": PIXELS.transpose(2, 0, 1)}, "but is uint8 3 x 5 x 6"),
        ({"jpg": "a.jpg"}, "`jpg` of row 'k' cannot be encoded"),
    ],
)
def test_rows_that_cannot_be_written(tmp_path: Path, row: dict[str, object], message: str) -> None:
    pipe = fp.from_sequence([{"__key__": "a", "bin": b""}, {"__key__": "k", **row}])
    with pytest.raises(RowError, match="on from_sequence, row 2") as error:
        fp.write_tar(pipe, tmp_path)
    assert message in str(error.value)


def test_a_key_that_comes_twice(tmp_path: Path) -> None:
    keys = ["a", "b", "a"]
    pipe = fp.from_sequence(keys).map(lambda key: {"__key__": key, "bin": b""})
    with pytest.raises(DataError, match="the key 'a' comes twice in one file"):
        fp.write_tar(pipe, tmp_path)
    assert os.listdir(tmp_path) == []
    fp.write_tar(pipe, tmp_path, rows_per_file=2)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"rows_per_file": 0}, ArgumentError, "`rows_per_file` must be >= 1 but got: 0"),
        ({"encoders": [1]}, ArgumentTypeError, "`encoders` must be a dict such as"),
        ({"encoders": {"JPG": str}}, ArgumentTypeError, "`encoders` must have extensions in lower case"),
        ({"encoders": {"jpg": 3}}, ArgumentTypeError, r"`encoders\['jpg'\]` must be callable but got: 3"),
        ({"pipe": [1]}, ArgumentTypeError, r"`pipe` must be a Pipe but got: \[1\]"),
    ],
)
def test_arguments(tmp_path: Path, options: dict[str, Any], kind: type[FeedpipeError], message: str) -> None:
    with pytest.raises(kind, match=message) as error:
        fp.write_tar(**{"pipe": rows(3), "folder": tmp_path, **options})
    assert "test_write_tar.py" in str(error.value)


def test_a_pipe_without_rows_makes_an_archive_without_members(tmp_path: Path) -> None:
    manifest = fp.write_tar(rows(0), tmp_path / "out")
    assert [entry["rows"] for entry in entries(manifest)] == [0]
    fp.verify(manifest)
    assert members(tmp_path / "out/part-00000.tar") == {}
    assert list(fp.read_tar(tmp_path / "out")) == []
