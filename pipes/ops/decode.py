"""`decode`: values in place of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from ..core.code import call_code
from ..core.cursor import Json
from ..core.operator import Operator
from ..formats.decoders import Decode as Function
from ..formats.decoders import Decoder, Images, Mode
from .map import Map

if TYPE_CHECKING:
    from ..pipe import Pipe


@dataclass(frozen=True)
class Decode(Map):
    """A `map` of a `Decoder`, whose fields are the arguments."""

    kind: ClassVar[str] = "decode"

    def call(self) -> str:
        return call_code(cast("Operator", self.function))

    def identity(self) -> Json:
        return {"call": self.call()}

    def remark(self) -> None:
        return None


def decode(
    pipe: Pipe[Mapping[str, object]],
    /,
    *,
    images: Images = "numpy",
    mode: Mode = "RGB",
    decoders: Mapping[str, Function] | None = None,
) -> Pipe[dict[str, object]]:
    """Give images, text and numbers in place of the bytes in each row, by their extension.

    Element: the row, a dict, with decoded values. In rows of `read_tar` each key is an extension; in those of
    `read_bytes` that of `path` says what `bytes` are. Of `seg.png` the last part counts. Bytes of other extensions, and
    what is no bytes, stay as they are. Order and length are the input's; indexed where the input is. State: none.

    | extension | becomes |
    | --- | --- |
    | `jpg`, `jpeg`, `png`, `ppm`, `pgm`, `pbm`, `pnm`, `bmp`, `webp`, `gif`, `tif`, `tiff` | an image, the first one |
    | `txt`, `text`, `transcript` | `str`, from UTF-8 |
    | `cls`, `cls2`, `index`, `inx`, `id` | `int` |
    | `json`, `jsn` | what the JSON says |
    | `npy` | an array; Python objects are refused |

    Images are read by Pillow, which has to be installed. They lie as in the file: an orientation that EXIF asks for is
    not applied. `PIL.ImageOps.exif_transpose` does that, in a decoder of your own.

    Args:
        images: "numpy" makes uint8 arrays of height x width x channels, "pil" Pillow's images.
        mode: "RGB", "L" (grey, one channel) or "RGBA": what images are converted to.
        decoders: functions of bytes by extension in lower case, such as "wav" or "seg.png"; they come before those
            above.

    Raises:
        RowError: names the row, the extension and the reason: an image that is truncated, has more pixels than
            `PIL.Image.MAX_IMAGE_PIXELS` or more than 8 bits a channel; text that is not UTF-8; malformed JSON; an error
            of a function in `decoders`. The rows before come first.

    Example:
        >>> import feedpipe as fp
        >>> rows = fp.from_sequence([{"__key__": "7", "cls": b"3", "json": b"[1, 2]", "wav": b"..."}])
        >>> list(rows.decode(decoders={"wav": len}))
        [{'__key__': '7', 'cls': 3, 'json': [1, 2], 'wav': 3}]
    """
    return pipe.then(Decode(Decoder(images, mode, decoders)))
