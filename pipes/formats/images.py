"""Images: the bytes of a file become an array, or an image of Pillow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "bmp", "webp", "gif", "tif", "tiff")
MODES = ("RGB", "L", "RGBA")

# Others are not tried, whatever the bytes are: among Pillow's formats are some that start programs.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "WEBP", "GIF", "TIFF")


def image(data: bytes, mode: str) -> Image:
    """The first image in the bytes of a file, as it lies there: its EXIF orientation is left alone.

    Raises:
        ValueError: it is no image, has more pixels than Pillow's limit, or more than 8 bits a channel.
        Exception: one of Pillow's: it is damaged or truncated.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        opened = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"it is damaged, or no image of {', '.join(_FORMATS)}") from error
    pixels, most = opened.width * opened.height, Image.MAX_IMAGE_PIXELS
    if most is not None and pixels > most:
        raise ValueError(f"{pixels} pixels, and `PIL.Image.MAX_IMAGE_PIXELS` allows {most}: it may be a bomb")
    if opened.mode[0] in "IF":
        raise ValueError(f"its pixels are of mode {opened.mode}, and conversion to 8 bits would cut them off")
    if mode != "RGBA" and "transparency" in opened.info:
        return opened.convert("RGBA").convert(mode)  # at once, Pillow warns of the colour that is lost
    return opened.convert(mode)


def array(data: bytes, mode: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The same as an array, height x width x channels, that can be written to."""
    pixels = np.array(image(data, mode))
    return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
