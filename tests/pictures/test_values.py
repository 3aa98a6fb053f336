"""Any value in short, and thumbnails."""

from __future__ import annotations

import base64
import io
import re
import sys
from collections import namedtuple

import numpy as np
import pytest
from PIL import Image

import feedpipe as fp
from tests.support.pictures import values


def pictures(html: str) -> list[Image.Image]:
    """The images of some markup, as a browser reads them."""
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((28, 28), np.uint8), "uint8[28, 28]"),
        (np.float32(1), "float32"),
        ({"image": 1, "label": 2}, "dict of image, label"),
        ([np.zeros(3), 1], "list of 2 x float64[3]"),
        ("four", "str of 4"),
        (b"x" * 2048, "bytes of 2 KiB"),
        ([], "empty list"),
        (None, "NoneType"),
        (3, "int"),
    ],
)
def test_descriptions(value: object, text: str) -> None:
    assert values.description(value) == text


def test_description_of_rows() -> None:
    assert values.description(fp.from_arrays({"x": np.arange(4)}).batch(3)[0]) == "Rows(3 x ['x'])"


@pytest.mark.parametrize("shape", [(30, 40, 3), (3, 30, 40), (30, 40), (1, 30, 40), (30, 40, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_have_thumbnails(shape: tuple[int, ...], dtype: type) -> None:
    (picture,) = pictures(values.preview(np.full(shape, 1, dtype)))
    assert picture.size == (40, 30)


def test_a_large_image_is_made_smaller_and_keeps_its_colours() -> None:
    pixels = np.zeros((1000, 3000, 3), np.uint8)
    pixels[:, :1500] = 255, 0, 0
    (picture,) = pictures(values.preview(pixels))
    assert max(picture.size) <= values.SIZE
    assert picture.getpixel((2, 2)) == (255, 0, 0) and picture.getpixel((picture.width - 2, 2)) == (0, 0, 0)


def test_numbers_become_pixels() -> None:
    ramp = np.linspace(-2, 2, 32 * 32).reshape(32, 32)
    ramp[0, 1] = np.nan
    (picture,) = pictures(values.preview(ramp))
    assert picture.getpixel((0, 0)) == 0 and picture.getpixel((31, 31)) == 255
    (dark,) = pictures(values.preview(np.full((16, 16), 0.5, np.float32)))
    assert dark.getpixel((3, 3)) == 127


def test_a_batch_shows_its_first_images() -> None:
    assert len(pictures(values.preview(np.zeros((64, 3, 32, 32), np.uint8)))) == values.IMAGES
    assert len(pictures(values.preview(np.zeros((2, 28, 28), np.uint8)))) == 2


@pytest.mark.parametrize("shape", [(16_000,), (2, 16_000), (16_000, 2)])
def test_waveforms(shape: tuple[int, ...]) -> None:
    (picture,) = pictures(values.preview(np.sin(np.arange(np.prod(shape))).reshape(shape).astype(np.float32)))
    assert picture.size == values.WAVE and picture.mode == "RGBA"


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((32, 512), np.int64),
        np.zeros((100, 13)),
        np.zeros(5),
        np.zeros((2, 2, 2, 2, 2)),
        np.zeros((0, 28, 28), np.uint8),
        np.array(["a"] * 300),
        "a" * 300,
        {"a": 1},
        b"no image",
        b"\xff\xd8\xff but damaged",
    ],
)
def test_other_values_are_text(value: object) -> None:
    assert not pictures(values.preview(value))


def test_encoded_images_and_those_of_pillow() -> None:
    picture = Image.new("RGB", (200, 100), (0, 0, 255))
    file = io.BytesIO()
    picture.save(file, "JPEG")
    for value in (picture, file.getvalue()):
        (small,) = pictures(values.preview(value))
        assert small.size == (72, 36)
        assert small.getpixel((30, 10))[2] > 250  # type: ignore[index]


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert values.preview(b"\xff\xd8\xff") == values.NO_PILLOW
    assert values.preview(np.zeros((28, 28), np.uint8)).startswith("<img")


def test_tensors() -> None:
    import torch

    assert values.description(torch.zeros(2, 3)) == "float32[2, 3]"
    assert values.text(torch.arange(64)) == "[ 0 1 2 ... 61 62 63]"
    assert len(pictures(values.preview(torch.zeros(8, 3, 32, 32, dtype=torch.bfloat16)))) == values.IMAGES


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Huge:
    def __repr__(self) -> str:
        return "<b>" + "x" * 10**6


def test_objects_of_the_user() -> None:
    assert "Broken" in values.text(Broken())
    assert len(values.text(Huge())) <= values.TEXT
    assert "<b>" not in values.preview(Huge())


def test_rows_of_megabytes_take_little() -> None:
    value = {"text": "x" * 10**7, "data": b"y" * 10**7, "list": list(range(10**6)), "array": np.zeros(10**7, np.int64)}
    assert len(values.sample(value)) < 4000


def test_samples() -> None:
    pair = namedtuple("pair", "image label")
    assert "label" in values.sample(pair(np.zeros((28, 28), np.uint8), 7))
    assert "and 12 more" in values.sample({str(place): place for place in range(20)})
    rows = fp.from_arrays({"x": np.arange(10), "image": np.zeros((10, 28, 28), np.uint8)}).batch(10)[0]
    assert len(pictures(values.sample(rows))) == values.ITEMS


def test_a_table_of_many_columns_names_some() -> None:
    table = values.table_of([{f"column {place}": place for place in range(30)}])
    assert "column 19" in table and "column 20" not in table and "and 10 more columns" in table
