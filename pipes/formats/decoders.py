"""`Decoder`: decodes the bytes in a row by the extension of the file that they come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, Literal, TypeAlias, cast

from ..core.checks import check_callable, check_choice
from ..errors import ArgumentTypeError, text_of, with_call_site
from .images import EXTENSIONS, MODES, decode_array, decode_image
from .npy import decode_npy
from .tar import KEY

DecodeFunction: TypeAlias = Callable[[bytes], object]
Images: TypeAlias = Literal["numpy", "pil"]
Mode: TypeAlias = Literal["RGB", "L", "RGBA"]


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


@dataclass(frozen=True)
class Decoder:
    """The arguments of `decode`. Called with a row, it gives the row with values in place of bytes."""

    kind: ClassVar[str] = "decode"

    images: Images = "numpy"
    mode: Mode = "RGB"
    decoders: Mapping[str, DecodeFunction] | None = None

    def __post_init__(self) -> None:
        check_choice("images", self.images, ("numpy", "pil"))
        check_choice("mode", self.mode, MODES)
        if self.decoders is not None and not isinstance(self.decoders, Mapping):
            raise ArgumentTypeError(
                with_call_site(f'`decoders` must be a dict such as {{"tiff": function}} but got: {self.decoders!r}')
            )
        for extension, function in cast("Mapping[object, object]", self.decoders or {}).items():
            if not isinstance(extension, str) or extension != extension.lower().lstrip("."):
                raise ArgumentTypeError(
                    with_call_site(
                        f'`decoders` must have extensions in lower case, such as "jpg", but got: {extension!r}'
                    )
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
        """Decode `value` if it is bytes; `ending` is what follows the first dot in the name of a file."""
        if not isinstance(value, bytes):
            return value
        ending = ending.lower()
        extension = ending.rpartition(".")[2]
        own = self.decoders or {}
        decode = own.get(ending) or own.get(extension) or _built_in(self.images, self.mode).get(extension)
        if decode is None:
            return value
        try:
            return decode(value)
        except Exception as error:
            raise ValueError(f"`{ending}` cannot be decoded: {type(error).__name__}: {text_of(error)}") from error


@lru_cache
def _built_in(images: Images, mode: Mode) -> dict[str, DecodeFunction]:
    decode = partial(decode_array if images == "numpy" else decode_image, mode=mode)
    return {**_DECODERS, **dict.fromkeys(EXTENSIONS, decode)}
