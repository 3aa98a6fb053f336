"""`File`: a file that is opened when it is read."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import BinaryIO, cast

from ..checks import check_choice
from ..errors import MissingError, SourceError
from .filesystem import Location, locate, looked_up, reason, split_options

COMPRESSIONS = ("infer", None, "gzip", "bz2", "zstd", "lz4", "brotli")
_ENDINGS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}


@dataclass(frozen=True, slots=True, repr=False)
class File:
    """A handle on a file: small, picklable, never open. `open()` makes a stream, anew each time.

    Attributes:
        path: the path or URL.
        filesystem: the pyarrow or fsspec file system that `path` is on; None where the path says it.
        compression: how the file is compressed; "infer" tells by the end of its name.
        listed: how many bytes it took when it was listed; None where nobody has listed it.

    Example:
        >>> import feedpipe as fp, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = path.write_text("hello")
        >>> file = fp.File(str(path))
        >>> with file.open() as stream:
        ...     file.size(), stream.read()
        (5, b'hello')
    """

    path: str
    filesystem: object = None
    compression: str | None = "infer"
    listed: int | None = None

    def open(self, compression: str | None = "infer") -> BinaryIO:
        """A stream of the file's bytes, decompressed; it can seek where the file is not compressed.

        Args:
            compression: "gzip", "bz2", "zstd", "lz4", "brotli", or None to get the bytes as they are; "infer" goes by
                the handle's own, and that by the name: .gz, .bz2, .zst, .lz4, .br.

        Raises:
            SourceError: the file cannot be opened; where it is not there, a `FileNotFoundError` as well.
        """
        check_choice("compression", compression, COMPRESSIONS)
        place = self._place()
        codec = self._codec(compression)
        try:
            if codec is None:
                stream = place.filesystem.open_input_file(place.path)
            else:
                stream = place.filesystem.open_input_stream(place.path, compression=codec)
        except OSError as error:
            raise self._failed(error) from error
        # Arrow's streams know no lines. A decompressor that fails drops what it made in that call: small calls then.
        return io.BufferedReader(cast("io.RawIOBase", stream), 2**17 if codec is None else 2**12)

    def size(self) -> int:
        """How many bytes the file takes, compressed where it is."""
        place = self._place()
        try:
            (info,) = looked_up(place.filesystem, [place.path])
        except OSError as error:
            raise self._failed(error) from error
        if not info.is_file:
            raise self._failed(FileNotFoundError() if info.type.name == "NotFound" else IsADirectoryError())
        return int(info.size)

    def __repr__(self) -> str:
        said = [repr(self.path)]
        if self.filesystem is not None:
            said.append(f"filesystem=<{type(self.filesystem).__name__}>")
        if self.compression != "infer":
            said.append(f"compression={self.compression!r}")
        return f"File({', '.join(said)})"

    def _place(self) -> Location:
        return locate(self.path, self.filesystem)

    def _codec(self, compression: str | None) -> str | None:
        how = self.compression if compression == "infer" else compression
        if how != "infer":
            return how
        name = self.path if self.filesystem is not None else split_options(self.path)[0]
        return next((codec for ending, codec in _ENDINGS.items() if name.endswith(ending)), None)

    def _failed(self, error: OSError) -> SourceError:
        if isinstance(error, FileNotFoundError):
            return MissingError(f"{self.path} is not there: it has vanished since it was listed, or never was")
        said = "it is a folder" if isinstance(error, IsADirectoryError) else reason(error)
        return SourceError(f"{self.path} cannot be opened: {said}")
