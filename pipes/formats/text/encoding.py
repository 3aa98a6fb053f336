"""`Utf8Stream`: a stream of text in any encoding, read as UTF-8."""

from __future__ import annotations

import codecs
import io
from typing import Any, BinaryIO

from ...errors import ArgumentError, DataError, with_call_site

_BLOCK_BYTES = 2**16
_HANDLER = "feedpipe.undecodable"
_FIRST = 0xDC00
"""A byte that cannot be decoded becomes this code point plus its value. UTF-8 has no such code points."""


def check_encoding(encoding: str) -> None:
    """Checks an argument `encoding`.

    Raises:
        ArgumentError: Python has no such encoding of text.
    """
    try:
        "\n".encode(encoding)
        codecs.getincrementaldecoder(encoding)
    except (LookupError, TypeError, ValueError):
        raise ArgumentError(with_call_site(f"`encoding` must be a text encoding but got: {encoding!r}")) from None


def is_utf8(encoding: str) -> bool:
    """Whether an encoding is UTF-8, by any of its names."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


class Utf8Stream(io.RawIOBase):
    """The text of a stream as UTF-8. It cannot seek: a place in the UTF-8 says no place in the file.

    What cannot be decoded is no UTF-8 either, so the parser finds it in its record; `shown` makes it readable.

    Args:
        stream: of bytes in `encoding`.
        name: the name of the file, for errors.
        encoding: the name of a codec.
    """

    def __init__(self, stream: BinaryIO, name: str, encoding: str) -> None:
        super().__init__()
        self._stream = stream
        self._name = name
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(_HANDLER)
        self._text = memoryview(b"")  # decoded, but not read yet
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._text and not self._ended:
            data = self._stream.read(_BLOCK_BYTES)
            self._ended = not data
            try:
                text = self._decoder.decode(data, self._ended)
            except UnicodeError as error:  # of the whole file, such as a missing byte order mark
                raise DataError(f"{self._name} is not {self._encoding}: {error}; {REPAIR}") from error
            self._text = memoryview(text.encode("utf-8", "surrogatepass"))
        count = min(len(buffer), len(self._text))
        buffer[:count] = self._text[:count]
        self._text = self._text[count:]
        return count


REPAIR = "`encoding=` says how the file is written"


def shown(data: bytes) -> str:
    r"""Text of a `Utf8Stream` for people: bytes that could not be decoded stand there as `\xff`."""
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # the file itself is meant to be UTF-8
        return data.decode("utf-8", "backslashreplace")
    if text.isascii():
        return text
    return "".join(f"\\x{ord(c) - _FIRST:02x}" if _FIRST <= ord(c) < _FIRST + 256 else c for c in text)


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(_FIRST + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_HANDLER, _mark)
