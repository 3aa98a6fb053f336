"""`File`: a file that is opened when it is read."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..core.checks import check_choice
from ..errors import MissingError, SourceError, redacted
from .error_messages import describe
from .filesystem import Location, is_near, locate, looked_up, split_options
from .remote import RemoteFile, RemoteStream
from .retry import retrying

if TYPE_CHECKING:
    from pyarrow import NativeFile

COMPRESSIONS = ("infer", None, "gzip", "bz2", "zstd", "lz4", "brotli")
WHOLE = range(2**63 - 1)
"""As the `part` of a file that will be read: all of its bytes, however many."""
_ENDINGS = {".gz": "gzip", ".tgz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}


class Stream(io.BufferedReader):
    """The bytes of a file.

    Attributes:
        remote: what it reads from, where the file lies elsewhere.
    """

    remote: RemoteStream | None = None


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

    @property
    def name(self) -> str:
        """The path as errors show it: a URL without its password."""
        return redacted(self.path)

    def open(self, compression: str | None = "infer") -> Stream:
        """A stream of the file's bytes, decompressed; it can seek where the file is not compressed.

        Args:
            compression: "gzip", "bz2", "zstd", "lz4", "brotli", or None to get the bytes as they are; "infer" goes by
                the handle's own, and that by the name: .gz, .tgz, .bz2, .zst, .lz4,
                .br.

        Raises:
            SourceError: the file cannot be opened; where it is not there, a `FileNotFoundError` as well.
        """
        check_choice("compression", compression, COMPRESSIONS)
        return self.stream(compression)

    def stream(self, compression: str | None = "infer", part: range | None = None) -> Stream:
        """What `open` gives, for who knows which `part` of the file's bytes will be read; see `RemoteStream`."""
        from pyarrow import CompressedInputStream, PythonFile

        codec = self._codec(compression)
        raw = self._raw(part)
        remote = raw if isinstance(raw, RemoteStream) else None
        if codec is not None:
            raw = CompressedInputStream(raw if remote is None else PythonFile(remote, "r"), cast("Any", codec))
        # Arrow's streams know no lines. A decompressor that fails drops what it made in that call: small calls then.
        made = Stream(cast("io.RawIOBase", raw), 2**17 if codec is None else 2**12)
        made.remote = remote
        return made

    def is_near(self) -> bool:
        """Whether a small read costs little."""
        return is_near(self._place().filesystem)

    def is_compressed(self) -> bool:
        """Whether `open()` decompresses it."""
        return self._codec("infer") is not None

    def size(self) -> int:
        """How many bytes the file takes, compressed where it is."""
        place = self._place()
        try:
            (info,) = looked_up(place.filesystem, [place.path])
        except OSError as error:
            raise self._failed(error) from error
        if not info.is_file:
            raise self._failed(FileNotFoundError() if info.type.name == "NotFound" else IsADirectoryError())
        size = cast("int | None", info.size)
        if size is None:
            raise SourceError(f"{self.name}: its storage does not say how many bytes it takes")
        return size

    def __repr__(self) -> str:
        said = [repr(self.name)]
        if self.filesystem is not None:
            said.append(f"filesystem=<{type(self.filesystem).__name__}>")
        if self.compression != "infer":
            said.append(f"compression={self.compression!r}")
        return f"File({', '.join(said)})"

    def _raw(self, part: range | None) -> NativeFile | RemoteStream:
        place = self._place()

        def opened() -> NativeFile:
            return place.filesystem.open_input_file(place.path)

        try:
            if is_near(place.filesystem):
                near = opened()
                raw: NativeFile | RemoteStream = near
                size = near.size()
            else:
                file = retrying(lambda: RemoteFile(self.name, opened), self.name)
                raw, size = RemoteStream(file, part), file.size
        except FileNotFoundError as error:
            self.size()  # which says so of a folder, too
            raise self._failed(error) from error
        except OSError as error:
            raise self._failed(error) from error
        if self.listed is not None and self.listed != size:
            raw.close()
            raise SourceError(
                f"{self.name} has changed since it was listed: it had {self.listed} bytes then, and has {size}; a pipe "
                "and a loader list files once, so make those anew"
            )
        return raw

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
            return MissingError(f"{self.name} is not there: it has vanished since it was listed, or never was")
        said = "it is a folder" if isinstance(error, IsADirectoryError) else describe(error)
        return SourceError(f"{self.name} cannot be opened: {said}")
