"""`description`, `preview`, `sample`: any value in short; images and audio as thumbnails.

What a row holds is the user's: it may be large, and its `repr` may fail. So a value is cut before it becomes text, and
an array is made smaller before it becomes a picture.
"""

from __future__ import annotations

import io
import math
import reprlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.process import bytes_text
from ..core.rows import Rows, column_names
from .page import Html, clipped, fragment, image, markup, table, tag

SIZE = 72
"""The longer side of a thumbnail, in pixels."""
WAVE = 144, 40
"""Width and height of the picture of a waveform, in pixels."""
MIN_WAVE = 256
"""A shorter series is no waveform."""
IMAGES = 4
"""The images that are shown of a batch of them."""
ITEMS = 8
"""The items that are shown of a row, a list or a dict."""
TEXT = 120
"""The characters that are shown of a text."""
MAX_TENSOR = 4096
"""The numbers of the largest tensor of which some are shown: it may have to come from a GPU."""
MAX_ITEMS, MAX_TEXT = 64, 1000
"""The largest array and the longest text that a terminal shows."""
NO_PILLOW = tag("small", "(no thumbnail)", class_="no-pillow")
"""Replaces the thumbnail of an encoded image if Pillow is not installed; a page says once what it means."""
ABOUT_PILLOW = "Thumbnails of encoded images need Pillow: pip install 'feedpipe[images]'"

T = TypeVar("T")
Pixels = npt.NDArray[np.uint8]

_ENCODED = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")
"""How files of images begin."""


def description(value: object) -> str:
    """Type and shape: `uint8[28, 28]`, `dict of image, label`, `Rows(64 x ['x', 'y'])`."""
    if isinstance(value, Rows):
        return clipped(f"Rows({len(value)} x {column_names(value)})", TEXT)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]" if shape else str(dtype)
    name = type(value).__name__
    if isinstance(value, (str, bytes, bytearray)):
        return f"{name} of {len(value):,}" if isinstance(value, str) else f"{name} of {bytes_text(len(value))}"
    if isinstance(value, Mapping):
        return clipped(f"{name} of {', '.join(map(str, list(value)[:ITEMS]))}", TEXT) if value else f"empty {name}"
    if isinstance(value, (list, tuple)):
        return f"{name} of {len(value):,} x {description(value[0])}" if value else f"empty {name}"
    return name


def preview(value: object) -> Html:
    """A picture of the value if it looks like an image or a waveform, else its text, cut."""
    picture = thumbnail(value)
    return tag("code", text(value)) if picture is None else picture


def sample(value: object) -> Html:
    """A whole element: a line for each of its values, with type and preview."""
    if isinstance(value, Rows):
        head = f"{len(value):,} rows"
        return markup(tag("small", head), table_of(value[:ITEMS]))
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        return markup(tag("small", f"list of {len(value):,} rows"), table_of(value[:ITEMS]))
    if isinstance(value, Mapping) and value:
        items = [(str(key), item) for key, item in list(value.items())[:ITEMS]]
        left = len(value) - len(items)
    elif isinstance(value, (list, tuple)) and value and not isinstance(value[0], (str, int, float)):
        items = [(_item_name(value, place), item) for place, item in enumerate(value[:ITEMS])]
        left = len(value) - len(items)
    else:
        return markup(tag("small", description(value)), " ", preview(value))
    lines = [(tag("b", clipped(name, 40)), tag("small", description(item)), preview(item)) for name, item in items]
    return markup(table((), lines), tag("small", f"and {left:,} more") if left else None)


def rows_fragment(rows: Rows) -> str:
    """The first rows for a notebook, with the type of each column."""
    count, columns = len(rows), len(column_names(rows))
    what = f"{count:,} row{'s' * (count != 1)} of {columns:,} column{'s' * (columns != 1)}"
    shown_rows = f", the first {ITEMS}" if count > ITEMS else ""
    return fragment(table_of(rows[:ITEMS]), tag("small", f"{what}{shown_rows}"))


def table_of(rows: Sequence[Mapping[str, object]], columns: int = 20) -> Html:
    """Rows of a table, or dicts, as a table with the type of each column."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown_names = names[:columns]
    first = {name: next((row[name] for row in rows if row.get(name) is not None), None) for name in shown_names}
    head = [markup(clipped(name, 40), tag("br"), tag("small", description(first[name]))) for name in shown_names]
    if len(names) > columns:
        head.append(tag("small", f"and {len(names) - columns:,} more columns"))
    numbers = [place for place, name in enumerate(shown_names) if isinstance(first[name], (int, float))]
    lines = [[preview(row[name]) if name in row else None for name in shown_names] for row in rows]
    return table(head, lines, numbers)


def _item_name(value: Sequence[object], place: int) -> str:
    names = getattr(value, "_fields", ())
    return str(names[place]) if place < len(names) else str(place)


class _ShortRepr(reprlib.Repr):
    """`repr`, of which not more is made than is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = TEXT
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = ITEMS
        self.maxlevel = 3

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(bytes(value[:40])) + ("..." if len(value) > 40 else "")

    repr_bytearray = repr_bytes

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(getattr(x, "shape", None), tuple) and getattr(x, "size", 0) != 1 and hasattr(x, "dtype"):
            return f"<{description(x)}>"
        return super().repr_instance(x, level)


_REPR = _ShortRepr()


def text(value: object) -> str:
    """The value on one line, cut; arrays in a list or a dict by type and shape."""
    try:
        shape = getattr(value, "shape", None)
        small = isinstance(shape, tuple) and math.prod(shape) <= MAX_TENSOR
        array = value if isinstance(value, np.ndarray) else _array(value) if small else None
        if array is not None:
            return clipped(np.array2string(array, threshold=12, edgeitems=3), TEXT)
        return clipped(_REPR.repr(value), TEXT)
    except Exception as error:  # of the user's `__repr__`
        return f"<{type(value).__name__}: its repr raises {type(error).__name__}>"


class Elements(list[T]):
    """Elements as a list that a terminal shows in short, and a notebook as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(short_repr, self))}]"

    def _repr_html_(self) -> str:
        if self and all(isinstance(element, Mapping) for element in self):
            return fragment(table_of(cast("list[Mapping[str, object]]", self)))
        return fragment([tag("div", sample(element)) for element in self])


def short_repr(value: object) -> str:
    """`repr` of an element, but of a large array, a long text or many bytes only what they are."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and hasattr(value, "dtype") and math.prod(shape) > MAX_ITEMS:
        return f"<{description(value)}>"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {short_repr(item)}" for key, item in value.items()) + "}"
    if type(value) is list and len(value) <= MAX_ITEMS:
        return f"[{', '.join(map(short_repr, value))}]"
    if type(value) is tuple and len(value) <= MAX_ITEMS:
        return f"({', '.join(map(short_repr, value))}{',' * (len(value) == 1)})"
    if isinstance(value, (str, bytes, list, tuple)) and len(value) > MAX_TEXT:
        return f"<{description(value)}>"
    return repr(value)


# Thumbnails


def thumbnail(value: object, size: int = SIZE) -> Html | None:
    """A small picture of an image, of some images of a batch, or of a waveform; None if it is none of these."""
    try:
        if isinstance(value, (bytes, bytearray)):
            return _encoded(bytes(value), size)
        array = _array(value)
        if array is None or not array.size:
            return None
        if (samples := _samples(array)) is not None:
            return image(png(_wave(samples)), f"waveform, {description(value)}", *WAVE)
        pictures = [_shown(pixels, size, description(value)) for pixels in _images(array)]
        return markup(*pictures) if pictures else None
    except Exception:  # whatever a strange array does, its text can still be shown
        return None


def _array(value: Any) -> npt.NDArray[Any] | None:
    """An array of numbers; of a tensor on a GPU a copy, and of an image of Pillow its pixels."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "buif" else None
    package = type(value).__module__.partition(".")[0]
    if package == "PIL" and hasattr(value, "convert"):
        small = value.copy()
        small.thumbnail((2 * SIZE, 2 * SIZE))
        return np.asarray(small.convert("RGB"))
    if package == "torch" and hasattr(value, "detach"):
        tensor = value.detach()[:IMAGES] if value.ndim == 4 else value.detach()
        tensor = tensor.float() if tensor.dtype.is_floating_point else tensor
        return np.asarray(tensor.cpu().numpy())
    return None


def _samples(array: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """The first channel of audio, or another long series."""
    if array.dtype.kind == "f" or array.dtype == np.int16:
        if array.ndim == 2 and min(array.shape) <= 8 and max(array.shape) >= MIN_WAVE:
            return np.asarray(array[0] if array.shape[0] < array.shape[1] else array[:, 0])
        if array.ndim == 1 and len(array) >= MIN_WAVE:
            return array
    return None


def _images(array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Images of height x width, perhaps with channels at the end; none if the array has another meaning."""
    if array.ndim == 4:
        return [picture for part in array[:IMAGES] for picture in _images(part)]
    if array.ndim == 3:
        if array.shape[2] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
            array = array.transpose(1, 2, 0)
        elif array.shape[2] not in (1, 3, 4):
            return [picture for part in array[:IMAGES] for picture in _images(part)] if _is_plane(array[0]) else []
        array = array[:, :, 0] if array.shape[2] == 1 else array
        return [array] if min(array.shape[:2]) >= 8 else []
    return [array] if array.ndim == 2 and _is_plane(array) else []


def _is_plane(array: npt.NDArray[Any]) -> bool:
    """Whether numbers in two dimensions are likely an image: others are tables of numbers."""
    low, high = int(min(array.shape)), int(max(array.shape))
    if array.dtype.kind in "bu" and array.dtype.itemsize == 1:
        return low >= 8
    return array.dtype.kind == "f" and low >= 16 and high <= 4 * low


def _encoded(data: bytes, size: int) -> Html | None:
    if not data.startswith(_ENCODED):
        return None
    try:
        from PIL import Image
    except ImportError:
        return NO_PILLOW
    with Image.open(io.BytesIO(data)) as picture:
        label = f"{picture.format} of {picture.width} x {picture.height}"
        picture.draft("RGB", (size, size))
        picture.thumbnail((size, size))
        return _shown(np.asarray(picture.convert("RGB")), size, label)


def _shown(pixels: npt.NDArray[Any], size: int, label: str) -> Html:
    small = _bytes_of(_shrunk(pixels, size))
    height, width = small.shape[:2]
    factor = max(1, size // max(height, width))
    return image(png(small), f"image, {label}", factor * width, factor * height)


def _shrunk(pixels: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The means of squares of pixels; of a large square, those of some of them."""
    stride = max(1, max(pixels.shape[:2]) // (4 * size))
    pixels = pixels[::stride, ::stride]
    step = -(-max(pixels.shape[:2]) // size)
    if step == 1:
        return pixels
    high, wide = min(step, pixels.shape[0]), min(step, pixels.shape[1])
    height, width = pixels.shape[0] // high, pixels.shape[1] // wide
    squares = pixels[: height * high, : width * wide].reshape(height, high, width, wide, *pixels.shape[2:])
    return np.asarray(squares.mean((1, 3), dtype=np.float32).astype(pixels.dtype))


def _bytes_of(pixels: npt.NDArray[Any]) -> Pixels:
    """Pixels from 0 to 255. Numbers that lie neither there nor between 0 and 1 go from the least to the most."""
    if pixels.dtype == np.uint8:
        return pixels
    numbers = np.nan_to_num(pixels.astype(np.float32), posinf=0.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    if low >= 0 and high <= 255:
        low, high = 0.0, 1.0 if high <= 1 else 255.0
    return np.asarray(((numbers - low) * (255 / (high - low))).astype(np.uint8))


def _wave(samples: npt.NDArray[Any]) -> Pixels:
    """The least and the most of each part of a series, as a line of pixels."""
    width, height = WAVE
    numbers = np.nan_to_num(samples[: len(samples) // width * width].astype(np.float32), posinf=0.0, neginf=0.0)
    parts = numbers.reshape(width, -1)
    low, high = parts.min(1), parts.max(1)
    least, most = float(low.min()), float(high.max())
    scale = (height - 1) / max(most - least, 1e-9)
    bottom, top = ((height - 1 - (edge - least) * scale).round().astype(int) for edge in (low, high))
    lines = np.arange(height)[:, None]
    pixels = np.zeros((height, width, 4), np.uint8)
    pixels[(lines >= top) & (lines <= bottom)] = 0x4A, 0x86, 0xC5, 0xFF
    return pixels


def png(pixels: Pixels) -> bytes:
    """Pixels of height x width, perhaps with 3 or 4 channels, as a PNG file."""
    height, width = pixels.shape[:2]
    kind = {2: 0, 3: 2 if pixels.shape[-1] == 3 else 6}[pixels.ndim]
    lines = np.zeros((height, 1 + pixels.size // height), np.uint8)  # each line begins with the number of its filter
    lines[:, 1:] = pixels.reshape(height, -1)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in (*parts, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
