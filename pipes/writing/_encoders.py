"""Encoders: they turn a value into bytes by the extension of its file, and `decode` undoes that."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..core.checks import check_callable
from ..errors import ArgumentTypeError, with_call_site

Encode: TypeAlias = Callable[[Any], bytes]


def check_encoders(value: object) -> dict[str, Encode]:
    """Checks `encoders=`, and returns its functions by extension."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            with_call_site(f'`encoders` must be a dict such as {{"flac": function}} but got: {value!r}')
        )
    for extension, function in value.items():
        if not isinstance(extension, str) or extension != extension.lower().lstrip("."):
            raise ArgumentTypeError(
                with_call_site(f'`encoders` must have extensions in lower case, such as "jpg", but got: {extension!r}')
            )
        check_callable(f"encoders[{extension!r}]", function)
    return dict(value)


def encode_value(ending: str, value: object, encoders: Mapping[str, Encode]) -> bytes:
    """Encodes a value.

    Args:
        ending: the text behind the first dot of the file's name.
        value: is encoded.
        encoders: functions of the user by ending or extension; they come before the built-in ones.

    Raises:
        Exception: of an encoder; it says why the value cannot be encoded.
    """
    extension = ending.rpartition(".")[2]
    encode = encoders.get(ending) or encoders.get(extension)
    if encode is None and isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    encode = encode or _BUILT_IN.get(extension)
    if encode is None:
        raise TypeError(
            f"it is of type {type(value).__name__}, and only bytes can be written as {extension!r} unless `encoders=` "
            "has a function for that extension"
        )
    data = encode(value)
    if not isinstance(data, bytes):
        raise TypeError(f"its encoder must give bytes but gave: {type(data).__name__}")
    return data


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"it must be a string but is of type {type(value).__name__}")
    return value.encode()


def _number(value: Any) -> bytes:
    number = value.item() if hasattr(value, "item") else value  # NumPy scalars and tensors have `item`
    if not isinstance(number, int):
        raise TypeError(f"it must be an int but is of type {type(value).__name__}")
    return str(int(number)).encode()


def _npy(value: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(value), allow_pickle=False)
    return stream.getvalue()


def _image(kind: str, **options: object) -> Encode:
    def encode(value: Any) -> bytes:
        from PIL import Image

        stream = io.BytesIO()
        image = value if isinstance(value, Image.Image) else Image.fromarray(_pixels(value))
        image.save(stream, kind, **options)
        return stream.getvalue()

    return encode


def _pixels(value: object) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    grey = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 1)
    if array.dtype != np.uint8 or not (grey or (array.ndim == 3 and array.shape[2] in (3, 4))):
        shape = " x ".join(map(str, array.shape))
        raise TypeError(
            f"it must be uint8 of height x width, with 1, 3 or 4 channels last, but is {array.dtype} {shape}"
        )
    return array.reshape(array.shape[:2]) if grey else array


_BUILT_IN: dict[str, Encode] = {
    **dict.fromkeys(("txt", "text", "transcript"), _text),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), _number),
    **dict.fromkeys(("json", "jsn"), _json),
    "npy": _npy,
    **dict.fromkeys(("jpg", "jpeg"), _image("JPEG", quality=95)),
    "png": _image("PNG"),
    "bmp": _image("BMP"),
    **dict.fromkeys(("ppm", "pgm", "pnm"), _image("PPM")),
    **dict.fromkeys(("tif", "tiff"), _image("TIFF")),
    "webp": _image("WEBP", lossless=True),
}
