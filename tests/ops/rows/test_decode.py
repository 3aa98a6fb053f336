from __future__ import annotations

import io
import json
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError
from feedpipe.media import images
from feedpipe.testing import check_operator

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


def encoded(kind: str, image: PIL.Image.Image | None = None, **options: object) -> bytes:
    buffer = io.BytesIO()
    (image or PIL.Image.fromarray(PIXELS)).save(buffer, kind, **options)
    return buffer.getvalue()


def saved(array: object) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def decoded(**row):
    options = {name: row.pop(name) for name in ("images", "mode", "decoders", "resize", "fast") if name in row}
    return fp.from_sequence([row]).decode(**options)[0]


@pytest.mark.parametrize("streamed", [False, True])
def test_law(streamed):
    rows = [{"__key__": str(n), "cls": b"%d" % n, "png": encoded("PNG")} for n in range(20)]
    source = fp.from_sequence(rows)
    results = check_operator((source.filter(bool) if streamed else source).decode())
    assert [row["cls"] for row in results] == list(range(20))
    assert (results[7]["png"] == PIXELS).all()


@pytest.mark.parametrize(
    ("extension", "kind"),
    [("png", "PNG"), ("PNG", "PNG"), ("ppm", "PPM"), ("bmp", "BMP"), ("tif", "TIFF"), ("tiff", "TIFF"), ("jpg", "PNG")],
)
def test_images(extension, kind):
    image = decoded(**{extension: encoded(kind)})[extension]
    assert image.dtype == np.uint8 and (image == PIXELS).all()
    image[0, 0] = 1  # it can be written to


def test_modes():
    grey = PIL.Image.fromarray(PIXELS[:, :, 0])
    assert decoded(png=encoded("PNG", grey))["png"].shape == (5, 7, 3)
    assert (decoded(png=encoded("PNG", grey), mode="L")["png"][:, :, 0] == PIXELS[:, :, 0]).all()
    assert decoded(png=encoded("PNG"), mode="RGBA")["png"].shape == (5, 7, 4)
    image = decoded(png=encoded("PNG"), images="pil")["png"]
    assert isinstance(image, PIL.Image.Image) and (image.mode, image.size) == ("RGB", (7, 5))
    palette = PIL.Image.fromarray(PIXELS).quantize(8)
    transparent = encoded("PNG", palette, transparency=bytes(range(8)))
    assert (decoded(png=transparent)["png"] == np.asarray(palette.convert("RGB"))).all()


def test_other_kinds():
    row = {
        "__key__": "dir/1",
        "txt": "é".encode(),
        "cls": b"17",
        "json": b'{"a": [1, null]}',
        "npy": saved(np.arange(6, dtype=">i4").reshape(2, 3)),
        "seg.png": encoded("PNG"),
        "wav": b"...",
        "number": 3,
    }
    result = decoded(**row)
    assert list(result) == list(row)
    assert (result["__key__"], result["txt"], result["cls"], result["json"]) == ("dir/1", "é", 17, {"a": [1, None]})
    assert result["npy"].tolist() == [[0, 1, 2], [3, 4, 5]] and result["npy"].dtype.isnative
    assert (result["seg.png"] == PIXELS).all()
    assert (result["wav"], result["number"]) == (b"...", 3)


def bomb() -> bytes:
    # 30,000 x 30,000 pixels of one bit, all the same: a few hundred kilobytes.
    return encoded("PNG", PIL.Image.new("1", (30_000, 30_000)))


def truncated_jpeg() -> bytes:
    data = encoded("JPEG", PIL.Image.fromarray(np.tile(PIXELS, (20, 20, 1))))
    return data[: len(data) // 2]


BROKEN = {
    "an image cut short": ("jpg", truncated_jpeg(), "`jpg` cannot be decoded: OSError: image file is truncated"),
    "no image": ("png", b"hello", "`png` cannot be decoded: ValueError: it is damaged, or no image of JPEG, PNG"),
    "a format that runs programs": ("png", b"%!PS-Adobe-3.0 EPSF-3.0\n", "it is damaged, or no image of"),
    "more than 8 bits": (
        "png",
        encoded("PNG", PIL.Image.fromarray(np.full((2, 2), 40_000, np.uint16))),
        "its pixels are of mode I;16B, and conversion to 8 bits would cut them off",
    ),
    "no number": ("cls", b"one", "`cls` cannot be decoded: ValueError: invalid literal for int"),
    "no text": ("txt", b"\xff", "`txt` cannot be decoded: UnicodeDecodeError"),
    "no JSON": ("json", b"{", "`json` cannot be decoded: JSONDecodeError"),
    "JSON that is too deep": ("json", b"[" * 9_999, "`json` cannot be decoded: ValueError: .* nested too deeply"),
    "pickled objects": ("npy", saved(np.array([{}], object)), "it holds Python objects, which would have to be unpick"),
    "an array cut short": ("npy", saved(np.arange(9))[:-1], "it is truncated: 9 items of int64 make 200 bytes, and it"),
    "no array": ("npy", b"hello", r"it is no \.npy file, or its header is damaged"),
}


@pytest.mark.parametrize(("extension", "data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_values_that_cannot_be_decoded(extension, data, message):
    rows = [{"__key__": "good", "txt": b"good"}, {"__key__": "bad", extension: data}]
    results = []
    with pytest.raises(fp.RowError, match=message) as caught:
        results.extend(fp.from_sequence(rows).decode())
    assert results == [{"__key__": "good", "txt": "good"}]
    assert "`.decode()` failed" in str(caught.value) and "from_sequence, row 2" in str(caught.value)
    assert __file__ in str(caught.value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_an_error(monkeypatch):
    data = bomb()
    with pytest.raises(fp.RowError, match="DecompressionBombError"):
        decoded(png=data)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 30_000 * 29_999)  # by itself Pillow only warns here
    with pytest.raises(fp.RowError, match="900000000 pixels, and `PIL.Image.MAX_IMAGE_PIXELS` allows 899970000"):
        decoded(png=data)


@given(st.sampled_from(["jpg", "png", "gif", "webp", "tif", "npy", "json"]), st.data())
def test_damaged_bytes_give_a_value_or_an_error(extension, draw):
    kinds = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "tif": "TIFF"}
    whole = {"npy": saved(np.arange(5)), "json": json.dumps([1, "a"]).encode()}
    data = bytearray(encoded(kinds[extension]) if extension in kinds else whole[extension])
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        decoded(**{extension: bytes(data[: draw.draw(st.integers(0, len(data)))])})
    except fp.RowError as error:
        assert f"`{extension}` cannot be decoded" in str(error)


def test_arguments():
    rows = fp.from_sequence([{}])
    with pytest.raises(ArgumentError, match="`images` must be one of 'numpy', 'pil', 'torch' but got: 'jax'") as caught:
        rows.decode(images="jax")
    assert __file__ in str(caught.value)
    with pytest.raises(ArgumentError, match="`mode` must be one of 'RGB', 'L', 'RGBA', 'P' but got: 'X'"):
        rows.decode(mode="X")
    with pytest.raises(ArgumentTypeError, match="`decoders` must be a dict such as"):
        rows.decode(decoders=len)
    with pytest.raises(ArgumentTypeError, match="must have extensions in lower case.*'.JPG'"):
        rows.decode(decoders={".JPG": len})
    with pytest.raises(ArgumentTypeError, match=r"`decoders\['jpg'\]` must be callable but got: 3"):
        rows.decode(decoders={"jpg": 3})
    for resize in ((3,), "3"):
        with pytest.raises(ArgumentTypeError, match="`resize` must be an int, or a pair of height and width, but got"):
            rows.decode(resize=resize)
    for resize, name in ((0, "resize"), ((3, 0), r"resize\[1\]")):
        with pytest.raises(ArgumentError, match=f"`{name}` must be >= 1 but got: 0"):
            rows.decode(resize=resize)
    with pytest.raises(ArgumentError, match="`fast` needs `resize`, the size at which a JPEG is decoded"):
        rows.decode(fast=True)
    with pytest.raises(fp.RowError, match="rows must be dicts that hold bytes"):
        list(fp.from_sequence([b"a"]).decode())


def smooth(width: int, height: int) -> PIL.Image.Image:
    """A picture without edges, whose pixels hardly depend on how it is made smaller."""
    coarse = np.random.default_rng(1).integers(0, 256, (4, 5, 3), np.uint8)
    return PIL.Image.fromarray(coarse).resize((width, height), PIL.Image.Resampling.BICUBIC)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("width", "height", "resize", "shape"),
    [
        (400, 300, (60, 80), (60, 80, 3)),
        (400, 300, 90, (90, 120, 3)),
        (300, 401, 100, (133, 100, 3)),
        (64, 48, [96, 128], (96, 128, 3)),
        (64, 48, (48, 64), (48, 64, 3)),
        (1600, 30, 15, (15, 800, 3)),
    ],
)
def test_resize(width, height, resize, shape, fast):
    image = smooth(width, height)
    expected = np.asarray(image.resize((shape[1], shape[0]), PIL.Image.Resampling.BILINEAR)).astype(int)
    row = decoded(png=encoded("PNG", image), jpg=encoded("JPEG", image, quality=98), resize=resize, fast=fast)
    assert np.abs(row["png"] - expected).max() <= fast  # torch resizes, and rounds in another way
    assert row["jpg"].shape == shape
    assert np.abs(row["jpg"] - expected).mean() < 2


def test_fast_leaves_out_what_a_smaller_image_does_not_need(monkeypatch):
    monkeypatch.setattr(images, "_simplejpeg", lambda: None)
    sizes = []
    load = PIL.Image.Image.convert
    monkeypatch.setattr(PIL.Image.Image, "convert", lambda image, mode: sizes.append(image.size) or load(image, mode))
    for resize, fast in ((100, False), (100, True), (150, True), (50, True), (201, True)):
        decoded(jpg=encoded("JPEG", PIL.Image.new("RGB", (800, 400))), resize=resize, fast=fast)
    assert sizes == [(800, 400), (200, 100), (400, 200), (100, 50), (800, 400)]


def wide_png(kind: int, channels: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, kind, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1 + 2 * channels))) + chunk(b"IEND", b"")


WIDE = {
    **{f"png {kind}": ("png", wide_png(kind, channels)) for kind, channels in ((0, 1), (2, 3), (4, 2), (6, 4))},
    "pgm": ("pgm", b"P5 1 1 65535\n" + bytes(2)),
    "ppm": ("ppm", b"P6 1 1 65535\n" + bytes(6)),
    "tiff": ("tif", encoded("TIFF", PIL.Image.new("I;16", (1, 1)))),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P"])
def test_channels_of_more_than_8_bits_are_not_cut(name, mode):
    extension, data = WIDE[name]
    with pytest.raises(fp.RowError, match="conversion to 8 bits would cut them off"):
        decoded(**{extension: data, "mode": mode})


@pytest.mark.parametrize("form", ["TIFF", "GIF", "WEBP", "PNG"])
def test_the_log_says_that_pages_and_frames_are_left_out(form, caplog):
    pages = [PIL.Image.new("RGB", (8, 8), color) for color in ("red", "blue", "lime")]
    pages[0].save(one := io.BytesIO(), form)
    pages[0].save(several := io.BytesIO(), form, save_all=True, append_images=pages[1:])
    extension = {"TIFF": "tif"}.get(form, form.lower())
    assert (decoded(**{extension: one.getvalue()})[extension][0, 0, 0] > 200) and not caplog.records
    for _ in range(2):
        assert decoded(**{extension: several.getvalue()})[extension][0, 0].tolist()[0] > 200  # the red one
    assert [record.message.partition(",")[0] for record in caplog.records] == [
        f"a {form} image has several pages or frames"
    ]


def test_masks_keep_the_numbers_of_their_colours(caplog):
    classes = np.array([[0, 1, 2], [2, 1, 0]], np.uint8)
    mask = PIL.Image.fromarray(classes, "P")
    mask.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    png = encoded("PNG", mask)
    assert decoded(png=png, mode="P")["png"][:, :, 0].tolist() == classes.tolist()
    assert decoded(png=png, mode="P", resize=(4, 6))["png"][::2, ::2, 0].tolist() == classes.tolist()
    assert decoded(png=png)["png"][0].tolist() == [[0, 0, 0], [255, 0, 0], [0, 255, 0]]
    grey = PIL.Image.fromarray(classes)
    assert decoded(png=encoded("PNG", grey), mode="P")["png"][:, :, 0].tolist() == classes.tolist()
    with pytest.raises(fp.RowError, match='`mode="P"` takes numbers'):
        decoded(png=encoded("PNG"), mode="P")
    for _ in range(2):
        assert decoded(png=png, mode="L")["png"].shape == (2, 3, 1)
    assert sum("of a palette" in record.message for record in caplog.records) == 1
