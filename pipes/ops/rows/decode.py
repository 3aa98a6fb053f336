"""`decode`: replaces bytes with the values that they encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from ...core.code import call_code, value_code
from ...core.cursor import Json
from ...core.operator import Operator, StageView
from ...core.policy import OnError
from ...formats.decoders import DecodeFunction, Decoder, Images, Mode
from ._concurrent_map import ConcurrentMap

if TYPE_CHECKING:
    from ...pipe import Pipe


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

    def remark(self, stage: StageView) -> None:
        return None


def decode(
    pipe: Pipe[Mapping[str, object]],
    /,
    *,
    images: Images = "numpy",
    mode: Mode = "RGB",
    decoders: Mapping[str, DecodeFunction] | None = None,
    concurrency: int = 1,
    on_error: OnError | None = None,
) -> Pipe[dict[str, object]]:
    """Replace the bytes in each row with the images, text and numbers that they encode, by extension.

    Element: the row, a dict, with decoded values. In rows of `read_tar` each key is an extension, and in `seg.png` the
    last part counts. In rows of `read_bytes` the extension of `path` applies to `bytes`. Bytes with other extensions,
    and values that are not bytes, stay as they are. Order and length are the input's. Indexed if the input is. State:
    none.

    | extension | becomes |
    | --- | --- |
    | `jpg`, `jpeg`, `png`, `ppm`, `pgm`, `pbm`, `pnm`, `bmp`, `webp`, `gif`, `tif`, `tiff` | the first image |
    | `txt`, `text`, `transcript` | `str`, from UTF-8 |
    | `cls`, `cls2`, `index`, `inx`, `id` | `int` |
    | `json`, `jsn` | the value of the JSON |
    | `npy` | an array; Python objects are an error |

    Pillow reads the images and must be installed. An orientation in EXIF is not applied; a decoder of your own can do
    that with `PIL.ImageOps.exif_transpose`.

    Args:
        images: "numpy" makes uint8 arrays of height x width x channels, "pil" makes `PIL.Image.Image` objects.
        mode: what images are converted to: "RGB", "L" (grey, one channel) or "RGBA".
        decoders: functions of bytes by extension in lower case, such as "wav" or "seg.png"; they replace the decoders
            above.
        concurrency: how many rows are decoded at the same time, in threads; see `map`.
        on_error: what happens to a row that cannot be decoded; see `map`.

    Raises:
        RowError: a value cannot be decoded: an image is truncated, has more pixels than `PIL.Image.MAX_IMAGE_PIXELS` or
            more than 8 bits a channel; text is not UTF-8; JSON is malformed; a function in `decoders` fails. The error
            names the row, the extension and the reason, and comes after the rows before it.
        ArgumentError: `images` or `mode` is none of the values above, or `concurrency` is below 1.
        ArgumentTypeError: `decoders` is not a dict of functions by extension.

    Example:
        >>> import feedpipe as fp
        >>> rows = fp.from_sequence([{"__key__": "7", "cls": b"3", "json": b"[1, 2]", "wav": b"..."}])
        >>> list(rows.decode(decoders={"wav": len}))
        [{'__key__': '7', 'cls': 3, 'json': [1, 2], 'wav': 3}]
    """
    return pipe.then(Decode(Decoder(images, mode, decoders), concurrency=concurrency, on_error=on_error))
