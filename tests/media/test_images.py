"""Pixels that do not depend on what decodes them, and crops."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError
from feedpipe.media import images
from feedpipe.testing import check_operator

MODES = ("RGB", "L", "CMYK")


def jpeg(width: int, height: int, mode: str = "RGB", detail: int = 7, noise: int = 9, **options: object) -> bytes:
    random = np.random.default_rng(width * height)
    coarse = PIL.Image.fromarray(random.integers(0, 256, (height // detail + 2, width // detail + 2, 3), np.uint8))
    pixels = np.asarray(coarse.resize((width, height))) + random.normal(0, noise, (height, width, 3))
    image = PIL.Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).convert(mode)
    image.save(file := io.BytesIO(), "JPEG", **options)
    return file.getvalue()


def by_both(data: bytes, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, Any]:
    """The image or the error of each of simplejpeg and Pillow."""
    found: list[Any] = []
    for without in (False, True):
        with monkeypatch.context() as patch:
            if without:
                patch.setattr(images, "_simplejpeg", lambda: None)
            try:
                found.append(images.decode_image(data, images.ImageForm(**options)))
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
    return found[0], found[1]


def test_simplejpeg_is_there_and_passes_its_test():
    assert images._simplejpeg() is not None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(50, 37), (17, 9), (64, 64), (1, 1), (7, 6), (8, 3), (3, 40)])
def test_pixels_are_those_of_pillow(mode, size, monkeypatch):
    kinds = product((0, 1, 2), (False, True), (60,)) if mode == "RGB" else product((0,), (False, True), (60,))
    for subsampling, progressive, quality in kinds:
        data = jpeg(*size, mode, progressive=progressive, quality=quality, subsampling=subsampling)
        for to, resize, fast in product(("RGB", "L", "RGBA"), (None, 2, 8, (9, 12)), (False, True)):
            if resize is None and fast:
                continue
            one, other = by_both(data, monkeypatch, mode=to, resize=resize, fast=fast)
            assert one.dtype == np.uint8 and (one == other).all(), (subsampling, progressive, quality, to, resize, fast)
            one[0, 0, 0] = 1  # it can be written to


def test_rgb_in_a_jpeg(monkeypatch):
    one, other = by_both(jpeg(40, 30, keep_rgb=True), monkeypatch)
    assert (one == other).all()


@given(st.data())
def test_a_damaged_file_gives_what_pillow_gives(draw):
    data = bytearray(jpeg(*draw.draw(st.sampled_from([(40, 30), (16, 50)]))))
    for _ in range(draw.draw(st.integers(0, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with pytest.MonkeyPatch.context() as monkeypatch:
        one, other = by_both(bytes(data[: draw.draw(st.integers(0, len(data)))]), monkeypatch)
    assert type(one) is type(other)
    assert one == other if isinstance(one, str) else (one == other).all()


def test_other_pixels_are_not_used(monkeypatch, caplog):
    simplejpeg = pytest.importorskip("simplejpeg")
    decode = simplejpeg.decode_jpeg
    monkeypatch.setattr(simplejpeg, "decode_jpeg", lambda *args, **options: decode(*args, fastdct=True, **options) ^ 1)
    assert images._simplejpeg.__wrapped__() is None
    assert "simplejpeg gives other pixels" in caplog.text


# Crops


SIZES = st.tuples(st.integers(1, 300), st.integers(1, 300))
RANGES = st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(sorted).map(tuple)


@given(SIZES, RANGES, RANGES, st.integers(0, 9))
def test_a_random_box_is_in_the_image(size, scale, ratio, seed):
    crop = fp.media.RandomResizedCrop(scale, (ratio[0], 1 / ratio[0]))
    draws = np.random.default_rng(seed).random(images.DRAWS)
    box = crop.box(*size, draws)
    assert box.height >= 1 and box.width >= 1 and box.top >= 0 and box.left >= 0
    assert box.top + box.height <= size[0] and box.left + box.width <= size[1]
    for factor in (2, 4, 8):
        small = -(-size[0] // factor), -(-size[1] // factor)
        part = box.scaled(*size, small)
        assert part.height >= 1 and part.width >= 1 and part.top >= 0 and part.left >= 0
        assert part.top + part.height <= small[0] and part.left + part.width <= small[1]


def test_random_boxes_have_the_areas_and_ratios_that_were_asked_for():
    crop, random = fp.media.RandomResizedCrop((0.1, 0.5), (0.5, 2.0)), np.random.default_rng(0)
    boxes = [crop.box(600, 800, random.random(images.DRAWS)) for _ in range(2000)]
    areas, ratios = (
        np.array(values) for values in zip(*((b.height * b.width, b.width / b.height) for b in boxes), strict=True)
    )
    assert 0.099 < areas.min() / 480_000 < 0.11 and 0.49 < areas.max() / 480_000 < 0.501
    assert 0.49 < ratios.min() < 0.55 and 1.8 < ratios.max() < 2.02
    assert np.median(areas) / 480_000 == pytest.approx(0.3, abs=0.02)
    assert min(box.top for box in boxes) == 0 and max(box.left + box.width for box in boxes) == 800


def test_a_narrow_image_is_cropped_in_its_middle():
    draws = np.random.default_rng(0).random(images.DRAWS)
    assert fp.media.RandomResizedCrop((1, 1)).box(10, 100, draws) == (0, 43, 10, 13)
    assert fp.media.RandomResizedCrop((1, 1)).box(100, 10, draws) == (43, 0, 13, 10)


def decoded(data: bytes, **options: Any) -> Any:
    return fp.from_sequence([{"jpg": data}]).decode(**options)[0]["jpg"]


@pytest.mark.parametrize("kind", ["numpy", "pil", "torch"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_crop_is_resized_as_pillow_does(kind, mode):
    data = jpeg(400, 304, detail=60, noise=0, quality=98)
    whole = PIL.Image.fromarray(np.squeeze(decoded(data, mode=mode)))
    expected = np.asarray(whole.crop((88, 40, 312, 264)).resize((50, 50), PIL.Image.Resampling.BILINEAR))
    for fast in (False, True):
        found = decoded(data, mode=mode, images=kind, resize=(50, 50), crop=fp.media.CenterCrop(224 / 304), fast=fast)
        if kind == "torch":
            assert found.shape == (3 if mode == "RGB" else 1, 50, 50)
            found = found.permute(1, 2, 0).numpy()
        assert np.abs(np.squeeze(found).astype(int) - expected).mean() <= (2 if fast else 0)


def test_no_crop_is_torchvisions_whole_image():
    data = jpeg(64, 48)
    whole = fp.media.CenterCrop()
    assert (decoded(data, resize=(48, 64), crop=whole) == decoded(data)).all()
    assert (decoded(data, resize=(12, 16), crop=whole) == decoded(data, resize=(12, 16))).all()


@pytest.mark.parametrize("kind", ["numpy", "pil", "torch"])
@pytest.mark.parametrize("fast", [False, True])
def test_a_mirrored_image(kind, fast):
    def image(size, flip):
        crop = fp.media.RandomResizedCrop((1, 1), (4 / 3, 4 / 3), flip=flip)
        found = decoded(jpeg(64, 48), images=kind, resize=size, crop=crop, fast=fast)
        return np.asarray(found if kind != "torch" else found.permute(1, 2, 0))

    for size in ((48, 64), (24, 32)):
        assert (image(size, 1.0) == image(size, 0.0)[:, ::-1]).all()
        assert (image(size, 1.0) != image(size, 0.0)).any()


@pytest.mark.parametrize("streamed", [False, True])
def test_draws_are_keyed(streamed):
    data = jpeg(64, 48)
    rows = fp.from_sequence([{"__key__": str(n), "jpg": data, "seg.jpg": data} for n in range(12)])
    crop = fp.media.RandomResizedCrop(flip=0.5)
    pipe = (rows.filter(bool) if streamed else rows).decode(resize=(8, 8), crop=crop)
    found = check_operator(pipe.map(lambda row: (row["__key__"], row["jpg"].tolist(), row["seg.jpg"].tolist())))
    assert all(first == second for _, first, second in found)  # an image and its mask
    assert len({str(first) for _, first, _ in found}) == 12

    def epoch(loader: Any) -> list[Any]:
        return [row["jpg"].tolist() for row in loader]

    def loader(seed: int) -> fp.Loader[Any]:
        return fp.Loader(pipe, seed=seed, shards=None if pipe.indexed else 2)

    with loader(1) as one, loader(1) as same, loader(2) as other:
        first = epoch(one)
        assert first == epoch(same)
        assert first != epoch(one) and first != epoch(other)


def test_a_jpeg_is_decoded_at_the_scale_of_its_crop(monkeypatch):
    heights = []
    turbo = images._jpeg_pixels

    def noted(*args):
        pixels = turbo(*args)
        heights.append(len(pixels))
        return pixels

    assert images._simplejpeg() is not None
    monkeypatch.setattr(images, "_jpeg_pixels", noted)
    data = jpeg(800, 400)
    for part in (1.0, 0.5, 0.25, 0.1):
        decoded(data, resize=(50, 50), crop=fp.media.CenterCrop(part), fast=True)
    decoded(data, resize=(50, 50), crop=fp.media.CenterCrop())
    assert heights == [50, 100, 200, 400, 400]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_batches_of_tensors(workers):
    rows = fp.from_sequence([{"jpg": jpeg(20, 10 + n)} for n in range(6)])
    pipe = rows.decode(images="torch", resize=(6, 5), crop=fp.media.CenterCrop()).batch(3).collate()
    arrays = rows.decode(resize=(6, 5), crop=fp.media.CenterCrop()).batch(3).collate()
    with fp.Loader(pipe, workers=workers) as loader:
        batches = list(loader)
    assert [tuple(batch["jpg"].shape) for batch in batches] == [(3, 3, 6, 5)] * 2
    for batch, other in zip(batches, arrays, strict=True):
        assert (batch["jpg"].permute(0, 2, 3, 1) == other["jpg"]).all()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"crop": 224}, ArgumentTypeError, r"`crop` must be `fp.media.RandomResizedCrop\(...\)` or .* but got: 224"),
        ({"resize": 3}, ArgumentError, r"`crop` needs `resize=\(height, width\)`, .* but `resize` is: 3"),
        ({}, ArgumentError, "`crop` needs .* but `resize` is: None"),
    ],
)
def test_arguments_of_decode(options, kind, message):
    with pytest.raises(kind, match=message) as caught:
        fp.from_sequence([]).decode(**{"crop": fp.media.CenterCrop(), **options})
    assert __file__ in str(caught.value)


def test_arguments_of_crops():
    crop = fp.media.RandomResizedCrop
    assert crop([0.5, 1]) == crop((0.5, 1.0))
    with pytest.raises(ArgumentError, match=r"`scale` must be a least and a largest number, > 0 and <= 1, but got"):
        crop((0.5, 1.1))
    with pytest.raises(ArgumentError, match=r"`ratio` must be a least and a largest number, > 0, but got: \(2, 1\)"):
        crop(ratio=(2, 1))
    with pytest.raises(ArgumentTypeError, match="`scale` must be a pair of numbers but got: 0.5"):
        crop(0.5)
    with pytest.raises(ArgumentError, match="`flip` must be >= 0 and <= 1 but got: 2"):
        crop(flip=2)
    with pytest.raises(ArgumentTypeError, match="`flip` must be a number but got: True"):
        crop(flip=True)
    with pytest.raises(ArgumentError, match="`part` must be > 0 but got: 0"):
        fp.media.CenterCrop(0)
