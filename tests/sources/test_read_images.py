from __future__ import annotations

import shutil

import numpy as np
import PIL.Image
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, MissingError, SourceError
from feedpipe.testing import check_operator


def pixels(n: int) -> np.ndarray:
    return np.full((3 + n % 2, 4, 3), n, np.uint8)


@pytest.fixture
def root(tmp_path):
    for n, name in enumerate(["b/1.png", "b/deep/2.PNG", "a-c/3.png", "a/4.png", "a/5.ppm", "ü/6.bmp"]):
        path = tmp_path / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(pixels(n)).save(path)
    (tmp_path / "train" / "README.md").write_text("no image")
    (tmp_path / "train" / "a" / "notes.txt").write_text("no image")
    (tmp_path / "train" / "_cache").mkdir()
    (tmp_path / "train" / "_cache" / "7.png").write_text("left out")
    return tmp_path / "train"


def test_law_and_rows(root):
    rows = check_operator(fp.read_images(root))
    assert [(row["path"], row["label"], row["label_name"]) for row in rows] == [
        (f"{root}/a-c/3.png", 1, "a-c"),
        (f"{root}/a/4.png", 0, "a"),
        (f"{root}/a/5.ppm", 0, "a"),
        (f"{root}/b/1.png", 2, "b"),
        (f"{root}/b/deep/2.PNG", 2, "b"),
        (f"{root}/ü/6.bmp", 3, "ü"),
    ]
    for row, n in zip(rows, [2, 3, 4, 0, 1, 5], strict=True):
        assert (row["image"] == pixels(n)).all() and row["image"].dtype == np.uint8
        assert list(row) == ["image", "label", "label_name", "path"]


def test_a_state_belongs_to_the_same_files(root, tmp_path):
    loader = fp.Loader(fp.read_images(root).batch(2))
    next(iter(loader))
    state = loader.state_dict()
    shutil.copytree(root, tmp_path / "moved")
    moved = fp.Loader(fp.read_images(tmp_path / "moved").batch(2))
    moved.load_state_dict(state)
    assert len(list(moved)) == 2
    (root / "b" / "1.png").unlink()
    with pytest.raises(fp.FeedpipeError):
        fp.Loader(fp.read_images(root).batch(2)).load_state_dict(state)


def test_the_error_of_a_damaged_image_comes_after_the_images_before_it(root):
    data = (root / "b" / "1.png").read_bytes()
    (root / "b" / "1.png").write_bytes(data[: len(data) // 2])
    got = []
    with pytest.raises(fp.RowError, match=r"`.decode\(\)` failed(.|\n)*b/1\.png, image 4(.|\n)*test_read_images\.py"):
        got.extend(fp.read_images(root))
    assert len(got) == 3


def test_bad_roots(root, tmp_path):
    with pytest.raises(MissingError, match="none is not there"):
        len(fp.read_images(tmp_path / "none"))
    with pytest.raises(SourceError, match=r"1\.png is no folder; `read_bytes` reads files and globs"):
        len(fp.read_images(root / "b" / "1.png"))
    with pytest.raises(SourceError, match="is no folder"):
        len(fp.read_images(root / "*"))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("a")
    with pytest.raises(SourceError, match="texts holds 1 files and no image: jpg, jpeg"):
        len(fp.read_images(tmp_path / "texts"))


def test_folders_that_may_be_classes_or_not(root):
    (root / "c").mkdir()
    assert len(fp.read_images(root)) == 6  # an empty folder is no class: an object store has none
    (root / "c" / "notes.txt").write_text("no image")
    with pytest.raises(SourceError, match=r"has folders without an image, such as 'c'(.|\n)*test_read_images\.py"):
        len(fp.read_images(root))
    PIL.Image.fromarray(pixels(1)).save(root / "x.png")
    with pytest.raises(SourceError, match="holds images outside of folders"):
        len(fp.read_images(root))


def test_what_decode_takes(root, tmp_path):
    (root / "b" / "own.heic").write_bytes(b"hello")
    rows = list(fp.read_images(root, decoders={"heic": len}, images="pil", mode="L", resize=2))
    assert [row["image"] for row in rows if row["path"].endswith("heic")] == [5]
    assert {row["image"].size for row in rows if row["image"] != 5} == {(2, 2)}
    crop = fp.media.RandomResizedCrop(flip=0.5)
    pipe = fp.read_images(root, resize=(5, 6), crop=crop, fast=True)
    assert "read_images" in str(pipe) and "crop=RandomResizedCrop(flip=0.5)" in str(pipe)
    assert {row["image"].shape for row in check_operator(pipe)} == {(5, 6, 3)}
    state = fp.Loader(pipe).state_dict()
    with pytest.warns(fp.errors.StateWarning, match="is now .*crop=CenterCrop"):
        fp.Loader(fp.read_images(root, resize=(5, 6), crop=fp.media.CenterCrop(), fast=True)).load_state_dict(state)


def test_arguments():
    with pytest.raises(ArgumentTypeError, match="`root` must be the path of a folder but got: 3"):
        fp.read_images(3)
    with pytest.raises(ArgumentError, match="`label` must be one of 'folder', None but got: 'name'"):
        fp.read_images("a", label="name")
    with pytest.raises(ArgumentError, match="`mode` must be one of"):
        fp.read_images("a", mode="CMY")
