"""`decode`: replaces bytes with the values that they encode, such as images."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from ..core.checks import check_callable, check_choice, check_int
from ..core.code import call_code, value_code
from ..core.cursor import Json
from ..core.operator import Operator
from ..core.skips import OnError
from ..errors import ArgumentError, ArgumentTypeError, text_of
from ..files.tar import KEY
from ..formats.npy import decode_npy
from ..media.audio import PACKAGE as AUDIO
from ..media.audio import audio as decode_audio
from .map import ConcurrentMap

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..pipe import Pipe


log = logging.getLogger("feedpipe")


def decode(
    pipe: Pipe[Mapping[str, object]],
    /,
    *,
    images: Images = "numpy",
    mode: Mode = "RGB",
    resize: int | tuple[int, int] | None = None,
    fast: bool = False,
    audio: Literal["numpy"] | None = None,
    decoders: Mapping[str, DecodeFunction] | None = None,
    concurrency: int = 1,
    on_error: OnError | None = None,
) -> Pipe[dict[str, object]]:
    """Replace the bytes in each row with the images, text and numbers that they encode, by extension.

    Element: the row, a dict, with decoded values. In rows of `read_tar` each key is an extension, and in `seg.png` the
    last part counts. In rows of `read_bytes` the extension of `path` applies to `bytes`. Bytes with other extensions,
    and values that are not bytes, stay as they are; the log names those that WebDataset decodes and `decode` does not,
    such as `pth` and `npz`. Order and length are the input's. Indexed if the input is. State:
    none.

    | extension | becomes |
    | --- | --- |
    | `jpg`, `jpeg`, `png`, `ppm`, `pgm`, `pbm`, `pnm`, `bmp`, `webp`, `gif`, `tif`, `tiff` | the first image |
    | `txt`, `text`, `transcript` | `str`, from UTF-8 |
    | `cls`, `cls2`, `index`, `inx`, `id` | `int` |
    | `json`, `jsn` | the value of the JSON |
    | `npy` | an array; Python objects are an error |
    | `wav`, `flac`, `ogg`, `mp3` | with `audio="numpy"`, a float32 array of samples x channels |

    Videos stay bytes, since a whole film is no row; `fp.media` decodes clips of them, and segments of audio. Pillow
    reads the images and must be installed. An orientation in EXIF is not applied; a decoder of your own can do that
    with `PIL.ImageOps.exif_transpose`.

    Args:
        images: "numpy" makes uint8 arrays of height x width x channels, "pil" makes `PIL.Image.Image` objects.
        mode: images are converted to "RGB", "L" (grey, one channel) or "RGBA". "P" keeps the numbers of the colours in
            a palette, or of grey, in one channel, and `resize` takes the nearest pixel: for masks of classes.
        resize: the height and width of images in pixels; or an int, the length of the shorter side, which keeps the
            shape as torchvision's `Resize` does. Pixels are interpolated linearly, over all pixels that become one.
        fast: True decodes a JPEG at a half, a quarter or an eighth of its size, if that is not smaller than `resize`.
            This takes a half to a fifth of the time of large images; pixels differ a little. Others are decoded whole.
        audio: "numpy" decodes audio; None leaves it as bytes. `pip install 'feedpipe[audio]'` installs what decodes it.
        decoders: functions of bytes by extension in lower case, such as "wav" or "seg.png"; they replace the decoders
            above.
        concurrency: the number of rows that threads decode at the same time; see `map`.
        on_error: what happens to a row that cannot be decoded; see `map`.

    Raises:
        RowError: a value cannot be decoded: an image is truncated, has more pixels than `PIL.Image.MAX_IMAGE_PIXELS` or
            more than 8 bits a channel; text is not UTF-8; JSON is malformed; a function in `decoders` fails. The error
            names the row, the extension and the reason, and comes after the rows before it.
        ArgumentError: `images`, `mode` or `audio` is none of the values above, `resize` or `concurrency` is below 1,
            `fast` comes without `resize`, or soundfile is not installed for `audio`.
        ArgumentTypeError: `decoders` is not a dict of functions by extension.

    Example:
        >>> import feedpipe as fp
        >>> rows = fp.from_sequence([{"__key__": "7", "cls": b"3", "json": b"[1, 2]", "wav": b"..."}])
        >>> list(rows.decode(decoders={"wav": len}))
        [{'__key__': '7', 'cls': 3, 'json': [1, 2], 'wav': 3}]
    """
    decoder = Decoder(images, mode, decoders, audio, resize, fast)
    return pipe.then(Decode(decoder, concurrency=concurrency, on_error=on_error))


@dataclass(frozen=True)
class Decode(ConcurrentMap):
    """A `map` whose function is a `Decoder`; the fields of that are the arguments."""

    kind: ClassVar[str] = "decode"

    def call(self) -> str:
        code = call_code(cast("Operator", self.function))
        arguments = [code.partition("(")[2][:-1]]
        arguments += [f"concurrency={self.concurrency}"] if self.concurrency > 1 else []
        arguments += [f"on_error={value_code(self.on_error)}"] if self.on_error is not None else []
        return f"{self.kind}({', '.join(filter(None, arguments))})"

    def identity(self) -> Json:
        return {"call": call_code(cast("Operator", self.function))}


DecodeFunction: TypeAlias = Callable[[bytes], object]
Images: TypeAlias = Literal["numpy", "pil"]
Mode: TypeAlias = Literal["RGB", "L", "RGBA", "P"]


def _decode_text(data: bytes) -> str:
    return data.decode()


def _decode_json(data: bytes) -> object:
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("objects and lists are nested too deeply") from None


# WebDataset's decoders, without those that run code from the data.
_DECODERS: dict[str, DecodeFunction] = {
    **dict.fromkeys(("txt", "text", "transcript"), _decode_text),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int),
    **dict.fromkeys(("json", "jsn"), _decode_json),
    "npy": decode_npy,
}


_LEFT = {
    **dict.fromkeys(("pth", "pt", "pkl", "pickle", "pyd"), "because reading it can run code"),
    **dict.fromkeys(("npz", "mp", "msgpack", "cbor", "ten", "tb", "gz"), "because it has no decoder for it"),
}
"""Extensions that WebDataset decodes, and the reason why they stay bytes."""


@dataclass(frozen=True)
class Decoder:
    """The function of `decode`: decodes the bytes in a row by the extension of the file that they come from."""

    kind: ClassVar[str] = "decode"

    images: Images = "numpy"
    mode: Mode = "RGB"
    decoders: Mapping[str, DecodeFunction] | None = None
    audio: Literal["numpy"] | None = None
    resize: int | tuple[int, int] | None = None
    fast: bool = False

    def __post_init__(self) -> None:
        check_choice("audio", self.audio, ("numpy", None))
        if self.audio is not None:
            AUDIO.check()
        check_choice("images", self.images, ("numpy", "pil"))
        check_choice("mode", self.mode, MODES)
        object.__setattr__(self, "resize", _check_size(self.resize))
        if self.fast and self.resize is None:
            raise ArgumentError(
                "`fast` needs `resize`, the size at which a JPEG is decoded; give both, or leave out `fast`"
            )
        if self.decoders is not None and not isinstance(self.decoders, Mapping):
            raise ArgumentTypeError(
                f'`decoders` must be a dict such as {{"tiff": function}} but got: {self.decoders!r}'
            )
        for extension, function in cast("Mapping[object, object]", self.decoders or {}).items():
            if not isinstance(extension, str) or extension != extension.lower().lstrip("."):
                raise ArgumentTypeError(
                    f'`decoders` must have extensions in lower case, such as "jpg", but got: {extension!r}'
                )
            check_callable(f"decoders[{extension!r}]", function)

    def __call__(self, row: Mapping[str, object]) -> dict[str, object]:
        if not isinstance(row, Mapping):
            raise TypeError(f"rows must be dicts that hold bytes, as those of `read_tar`, but got: {row!r}")
        if KEY not in row and isinstance(path := row.get("path"), str) and "bytes" in row:
            ending = path.rpartition("/")[2].partition(".")[2]
            return {**row, "bytes": self._decode(ending, row["bytes"])}
        return {key: self._decode(key, value) for key, value in row.items()}

    def _decode(self, ending: str, value: object) -> object:
        """Decode `value` if it is bytes; `ending` is the part of a file's name after its first dot."""
        if not isinstance(value, bytes):
            return value
        ending = ending.lower()
        extension = ending.rpartition(".")[2]
        own = self.decoders or {}
        built_in = _built_in(self.images, ImageForm(self.mode, self.resize, self.fast), self.audio)
        decode = own.get(ending) or own.get(extension) or built_in.get(extension)
        if decode is None:
            if extension in _LEFT:
                _log_once(
                    f"`decode` leaves `.{extension}` as bytes, {_LEFT[extension]}; "
                    f'`decoders={{"{ending}": function}}` decodes it'
                )
            return value
        try:
            return decode(value)
        except Exception as error:
            raise ValueError(f"`{ending}` cannot be decoded: {type(error).__name__}: {text_of(error)}") from error


@lru_cache
def _built_in(images: Images, form: ImageForm, audio: str | None) -> dict[str, DecodeFunction]:
    decode = partial(decode_array if images == "numpy" else decode_image, form=form)
    sounds = () if audio is None else ("wav", "flac", "ogg", "mp3")
    return {**_DECODERS, **dict.fromkeys(EXTENSIONS, decode), **dict.fromkeys(sounds, decode_audio)}


# Images.


EXTENSIONS = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "bmp", "webp", "gif", "tif", "tiff")
MODES = ("RGB", "L", "RGBA", "P")

# Pillow tries no others, whatever the bytes are: some of its formats start programs.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "WEBP", "GIF", "TIFF")


class ImageForm(NamedTuple):
    """What images become: their mode and size, and whether they may be decoded at a smaller size; see `decode`."""

    mode: Mode
    resize: int | tuple[int, int] | None = None
    fast: bool = False

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of an image of this size, once it is resized."""
        if self.resize is None:
            return width, height
        if isinstance(self.resize, tuple):
            return self.resize[1], self.resize[0]
        shorter = min(width, height)
        return self.resize * width // shorter, self.resize * height // shorter


def _check_size(value: object) -> int | tuple[int, int] | None:
    """Check `resize`."""
    if value is None or isinstance(value, int):
        return value if value is None else check_int("resize", value, least=1)
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentTypeError(f"`resize` must be an int, or a pair of height and width, but got: {value!r}")
    height, width = (check_int(f"resize[{number}]", side, least=1) for number, side in enumerate(value))
    return height, width


def decode_image(data: bytes, form: ImageForm) -> Image:
    """Decode the first image in the bytes of a file. It is not rotated by its EXIF orientation.

    Raises:
        ValueError: it is no image, has more pixels than Pillow's limit, or more than 8 bits a channel.
        Exception: one of Pillow's: it is damaged or truncated.
    """
    from PIL import Image, UnidentifiedImageError
    from PIL.Image import Resampling

    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"it is damaged, or no image of {', '.join(_FORMATS)}") from error
    pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
    if limit is not None and pixels > limit:
        raise ValueError(f"{pixels} pixels, and `PIL.Image.MAX_IMAGE_PIXELS` allows {limit}: it may be a bomb")
    if image.mode[0] in "IF" or _has_wide_channels(image):
        raise ValueError(f"its pixels are of mode {_raw_mode(image)}, and conversion to 8 bits would cut them off")
    if form.mode == "P" and image.mode not in ("P", "L", "1"):
        raise ValueError(f'its pixels are of mode {image.mode}, and `mode="P"` takes numbers of colours or of grey')
    if form.mode == "L" and image.mode == "P":
        _log_once('`decode` makes grey of the colours of a palette; `mode="P"` gives their numbers, as masks need them')
    size = form.size(image.width, image.height)
    if form.fast:
        image.draft(form.mode, size)  # the decoder leaves out what a smaller image does not need; only JPEG can
    # A direct conversion warns that the transparent colour is lost.
    transparent = form.mode in ("RGB", "L") and "transparency" in image.info
    if form.mode == "P":
        converted = image if image.mode == "P" else image.convert("L")
    else:
        converted = (image.convert("RGBA") if transparent else image).convert(form.mode)
    if converted.size == size:
        return converted
    return converted.resize(size, Resampling.NEAREST if form.mode == "P" else Resampling.BILINEAR)


@lru_cache(maxsize=256)
def _log_once(message: str) -> None:
    log.warning(message)


def _raw_mode(image: Image) -> str:
    """Return how the file holds pixels, such as "RGB;16B"; Pillow's own mode has 8 bits for these."""
    arguments = _tile_arguments(image)
    return str((arguments or (image.mode,))[0])


def _has_wide_channels(image: Image) -> bool:
    if image.format == "PPM":  # the second argument is the largest value
        return _tile_arguments(image)[1:] > (255,)
    return re.search(r";16[BLN]", _raw_mode(image)) is not None


def _tile_arguments(image: Any) -> tuple[Any, ...]:
    """Return the arguments of the decoder that Pillow has chosen; the first one is how the file holds pixels."""
    arguments = image.tile[0][3] if image.tile else ()
    return arguments if isinstance(arguments, tuple) else (arguments,)


def decode_array(data: bytes, form: ImageForm) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Decode the first image to a writable array of height x width x channels."""
    pixels = np.array(decode_image(data, form))
    return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
