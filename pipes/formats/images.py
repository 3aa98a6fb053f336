"""Decodes the bytes of image files, to arrays or to Pillow's images."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "bmp", "webp", "gif", "tif", "tiff")
MODES = ("RGB", "L", "RGBA")

# Pillow tries no others, whatever the bytes are: some of its formats start programs.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "WEBP", "GIF", "TIFF")


def decode_image(data: bytes, mode: str) -> Image:
    """Decode the first image in the bytes of a file. It is not rotated by its EXIF orientation.

    Raises:
        ValueError: it is no image, has more pixels than Pillow's limit, or more than 8 bits a channel.
        Exception: one of Pillow's: it is damaged or truncated.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"it is damaged, or no image of {', '.join(_FORMATS)}") from error
    pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
    if limit is not None and pixels > limit:
        raise ValueError(f"{pixels} pixels, and `PIL.Image.MAX_IMAGE_PIXELS` allows {limit}: it may be a bomb")
    if image.mode[0] in "IF":
        raise ValueError(f"its pixels are of mode {image.mode}, and conversion to 8 bits would cut them off")
    if mode != "RGBA" and "transparency" in image.info:
        return image.convert("RGBA").convert(mode)  # a direct conversion warns that the transparent colour is lost
    return image.convert(mode)


def decode_array(data: bytes, mode: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Decode the first image to a writable array of height x width x channels."""
    pixels = np.array(decode_image(data, mode))
    return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
