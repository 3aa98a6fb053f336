"""`decode`: replaces bytes with the values that they encode, such as images."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

import numpy as np

from ..core.checks import check_callable, check_choice
from ..core.code import call_code, value_code
from ..core.cursor import Json
from ..core.operator import Operator
from ..core.skips import OnError
from ..errors import ArgumentTypeError, text_of
from ..files.tar import KEY
from ..formats.npy import decode_npy
from ..media.audio import PACKAGE as AUDIO
from ..media.audio import audio as decode_audio
from ..media.images import DRAWS, EXTENSIONS, Crop, Draws, ImageForm, Images, Mode, decode_image, log_once
from .map import ConcurrentMap

if TYPE_CHECKING:
    from ..pipe import Pipe


def decode(
    pipe: Pipe[Mapping[str, object]],
    /,
    *,
    images: Images = "numpy",
    mode: Mode = "RGB",
    resize: int | tuple[int, int] | None = None,
    fast: bool = False,
    crop: Crop | None = None,
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
    reads the images and must be installed; `pip install 'feedpipe[images]'` also installs simplejpeg, which decodes a
    JPEG to the same pixels in 0.6 of the time. An orientation in EXIF is not applied; a decoder of your own can do that
    with `PIL.ImageOps.exif_transpose`.

    Args:
        images: "numpy" makes uint8 arrays of height x width x channels, "torch" uint8 tensors of channels x height x
            width, "pil" makes `PIL.Image.Image` objects.
        mode: images are converted to "RGB", "L" (grey, one channel) or "RGBA". "P" keeps the numbers of the colours in
            a palette, or of grey, in one channel, and `resize` takes the nearest pixel: for masks of classes.
        resize: the height and width of images in pixels; or an int, the length of the shorter side, which keeps the
            shape as torchvision's `Resize` does. Pixels are interpolated linearly, over all pixels that become one.
        fast: True decodes a JPEG at a half, a quarter or an eighth of its size, if the image or its crop is then not
            smaller than `resize`, and lets torch resize, if it is installed. This takes two thirds to a fifth of the
            time; pixels differ a little.
        crop: the part of each image that is resized to `resize`, which must be a height and a width:
            `fp.media.RandomResizedCrop()` for training, whose draws are keyed as those of `map(rng=True)`, or
            `fp.media.CenterCrop()`.
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
            `fast` comes without `resize`, `crop` without a height and a width, or soundfile is not installed for
            `audio`, or torch for `images`.
        ArgumentTypeError: `decoders` is not a dict of functions by extension, or `crop` none of the two.

    Example:
        >>> import feedpipe as fp
        >>> rows = fp.from_sequence([{"__key__": "7", "cls": b"3", "json": b"[1, 2]", "wav": b"..."}])
        >>> list(rows.decode(decoders={"wav": len}))
        [{'__key__': '7', 'cls': 3, 'json': [1, 2], 'wav': 3}]
    """
    decoder = Decoder(images, mode, resize, fast, crop, decoders, audio)
    return pipe.then(Decode(decoder, concurrency=concurrency, on_error=on_error))


@dataclass(frozen=True, eq=False, repr=False)
class Decode(ConcurrentMap):
    """A `map` whose function is a `Decoder`; the fields of that are the arguments."""

    kind: ClassVar[str] = "decode"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rng", cast("Decoder", self.function).is_random)
        super().__post_init__()

    @property
    def worker_imports(self) -> tuple[str, ...]:
        """What each worker would import with its first image."""
        return ("PIL.Image", "simplejpeg", *(["torch"] if cast("Decoder", self.function).fast else []))

    def call(self) -> str:
        code = call_code(cast("Operator", self.function))
        arguments = [code.partition("(")[2][:-1]]
        arguments += [f"concurrency={self.concurrency}"] if self.concurrency > 1 else []
        arguments += [f"on_error={value_code(self.on_error)}"] if self.on_error is not None else []
        return f"{self.kind}({', '.join(filter(None, arguments))})"

    def identity(self) -> Json:
        return {"call": call_code(cast("Operator", self.function))}


DecodeFunction: TypeAlias = Callable[[bytes], object]


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


_SOUNDS = ("wav", "flac", "ogg", "mp3")

_LEFT = {
    **dict.fromkeys(("pth", "pt", "pkl", "pickle", "pyd"), "because reading it can run code"),
    **dict.fromkeys(("npz", "mp", "msgpack", "cbor", "ten", "tb", "gz"), "because it has no decoder for it"),
}
"""Extensions that WebDataset decodes, and the reason why they stay bytes."""


@dataclass(frozen=True)
class Decoder(ImageForm):
    """The function of `decode`: decodes the bytes in a row by the extension of the file that they come from."""

    kind: ClassVar[str] = "decode"

    decoders: Mapping[str, DecodeFunction] | None = None
    audio: Literal["numpy"] | None = None
    key: str = field(default="bytes", repr=False)
    """The name of the bytes in rows of files."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("audio", self.audio, ("numpy", None))
        if self.audio is not None:
            AUDIO.check()
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

    def __call__(self, row: Mapping[str, object], rng: np.random.Generator | None = None) -> dict[str, object]:
        if not isinstance(row, Mapping):
            raise TypeError(f"rows must be dicts that hold bytes, as those of `read_tar`, but got: {row!r}")
        draws = None if rng is None else rng.random(DRAWS)
        if KEY not in row and isinstance(path := row.get("path"), str) and self.key in row:
            ending = path.partition("::")[0].rpartition("/")[2].partition(".")[2]  # in an archive, of its file
            return {**row, self.key: self._decode(ending, row[self.key], draws)}
        return {key: self._decode(key, value, draws) for key, value in row.items()}

    def _decode(self, ending: str, value: object, draws: Draws | None) -> object:
        """Decode `value` if it is bytes; `ending` is the part of a file's name after its first dot."""
        if not isinstance(value, bytes):
            return value
        ending = ending.lower()
        extension = ending.rpartition(".")[2]
        own = self.decoders or {}
        decode = own.get(ending) or own.get(extension) or _DECODERS.get(extension)
        if decode is None and extension in EXTENSIONS:
            decode = partial(decode_image, form=self, draws=draws)
        elif decode is None and self.audio is not None and extension in _SOUNDS:
            decode = decode_audio
        if decode is None:
            if extension in _LEFT:
                log_once(
                    f"`decode` leaves `.{extension}` as bytes, {_LEFT[extension]}; "
                    f'`decoders={{"{ending}": function}}` decodes it'
                )
            return value
        try:
            return decode(value)
        except Exception as error:
            raise ValueError(f"`{ending}` cannot be decoded: {type(error).__name__}: {text_of(error)}") from error
