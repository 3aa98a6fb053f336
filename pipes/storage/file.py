"""`File`: a handle on a file, local or remote, which opens it when it is read."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import IO, TYPE_CHECKING, Any, cast

from ..core.checks import check_choice
from ..errors import DataError, MissingError, SourceError, shown_cause, shown_path
from .file_cache import CachedFile, FileCache
from .filesystem import (
    ARCHIVE_TYPE,
    Location,
    describe,
    file_infos,
    is_local,
    locate,
    open_input,
    split_options,
    with_retries,
)
from .listing import OBJECT_STORES, check_readable
from .remote import RemoteFile, RemoteStream

if TYPE_CHECKING:
    from pyarrow import NativeFile

_IN_ARCHIVE = "in an archive"
"""The codec of a file in a zip archive: what decompresses it goes back to its start for each range of it."""
COMPRESSIONS = ("infer", None, "gzip", "bz2", "xz", "zstd", "lz4", "brotli", "zip")
WHOLE = range(2**63 - 1)
"""As the `part` of a file that will be read: all bytes."""
_ENDINGS = {
    ".gz": "gzip",
    ".tgz": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".lz4": "lz4",
    ".br": "brotli",
    ".xz": "xz",
    ".zip": "zip",
}


class Stream(io.BufferedReader):
    """The bytes of a file.

    Attributes:
        remote: the stream below, if the file is remote.
        packed: the stream below, if this one decompresses it.
    """

    remote: RemoteStream | None = None
    packed: NativeFile | RemoteStream | None = None


class _Decompressed(io.RawIOBase):
    """The bytes of an xz file, or of one in a zip archive, which Arrow does not read. It cannot seek."""

    def __init__(self, raw: NativeFile | RemoteStream, codec: str, name: str) -> None:
        super().__init__()
        self._raw = raw
        self._codec = codec
        self._name = name
        self._content: IO[bytes] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        import lzma
        import zipfile
        import zlib

        try:
            self._content = self._content or self._open()
            data = self._content.read(len(buffer))
        except (lzma.LZMAError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
            raise ValueError(str(error)) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _open(self) -> IO[bytes]:
        import lzma
        import zipfile

        if self._codec == _IN_ARCHIVE:
            return cast("IO[bytes]", self._raw)
        if self._codec == "xz":
            return cast("IO[bytes]", lzma.LZMAFile(cast("IO[bytes]", self._raw)))
        archive = zipfile.ZipFile(cast("IO[bytes]", self._raw))
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1:
            raise DataError(
                f"{self._name} is a zip archive of {len(members)} files, and only one of a single file is read; unpack "
                "it first, or `compression=None` reads it as it is"
            )
        return archive.open(members[0])


@dataclass(frozen=True, slots=True, repr=False)
class File:
    """A handle on a file: small, picklable, never open. Each call of `open()` makes a new stream.

    Attributes:
        path: the path or URL.
        filesystem: the pyarrow or fsspec file system of `path`; None if `path` is a local path or a URL.
        compression: how the file is compressed; "infer" goes by the end of its name.
        listed: the size in bytes when the file was listed; None if it was not listed.
        changed: when the file was changed, as its listing says, in milliseconds since 1970; 0 if that is not known.
        cache: keeps the bytes read from a remote file on a local disk.

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
    _: KW_ONLY
    filesystem: object = None
    compression: str | None = "infer"
    listed: int | None = None
    changed: int = 0
    cache: FileCache | None = None

    @property
    def name(self) -> str:
        """The path as errors show it: on one line, and a URL without its secrets."""
        return shown_path(self.path)

    def open(self, compression: str | None = "infer") -> Stream:
        """Open a stream of the decompressed bytes. It can seek if the file is not compressed.

        Args:
            compression: "gzip", "bz2", "xz", "zstd", "lz4", "brotli", "zip" for an archive of one file, or None to get
                the bytes as they are. "infer" takes the compression of the handle; if that is "infer" too, the end of
                the name decides: .gz, .tgz, .bz2, .xz, .zst, .zstd, .lz4, .br, .zip.

        Raises:
            SourceError: the file cannot be opened. If there is no such file, it is a `FileNotFoundError` as well.
        """
        check_choice("compression", compression, COMPRESSIONS)
        return self.stream(compression)

    def stream(self, compression: str | None = "infer", part: range | None = None) -> Stream:
        """Open a stream of which only a `part` will be read; see `open` and `RemoteStream`."""
        from pyarrow import CompressedInputStream, PythonFile

        codec = self._codec(compression)
        raw = self._raw(part)
        remote = raw if isinstance(raw, RemoteStream) else None
        content: object = raw
        if codec in ("xz", "zip", _IN_ARCHIVE):
            content = _Decompressed(raw, codec, self.name)
        elif codec is not None:
            content = CompressedInputStream(raw if remote is None else PythonFile(remote, "r"), cast("Any", codec))
        # Arrow's streams have no lines. A decompressor that fails drops the output of that call, so calls are small.
        stream = Stream(cast("io.RawIOBase", content), 2**17 if codec is None else 2**12)
        stream.remote = remote
        stream.packed = None if codec is None else raw
        return stream

    def is_local(self) -> bool:
        """Return True if the file is on this machine or in memory, where a small read costs little."""
        return is_local(self._location().filesystem)

    def is_object(self) -> bool:
        """Return True if the file is in an object store, where an open file takes neither connection nor descriptor."""
        return self._location().filesystem.type_name in OBJECT_STORES

    def listed_version(self) -> object:
        """The size of the file and the second of its last change, as S3 lists them; None if that is not known."""
        if self.listed is None or not self.changed or self.cache is not None:
            return None
        return (self.listed, self.changed // 1000) if self._location().filesystem.type_name == "s3" else None

    def is_compressed(self) -> bool:
        """Return True if `open()` decompresses it."""
        return self._codec("infer") is not None

    def size(self) -> int:
        """The size of the file in bytes, as it is stored."""
        location = self._location()
        try:
            (info,) = file_infos(location.filesystem, [location.path])
        except OSError as error:
            raise self._open_error(error) from shown_cause(error, self.path)
        if not info.is_file:
            problem = FileNotFoundError() if info.type.name == "NotFound" else IsADirectoryError()
            raise self._open_error(problem) from None
        size = cast("int | None", info.size)
        if size is None:
            raise SourceError(f"{self.name}: its storage does not say how many bytes it takes")
        return size

    def known_size(self) -> int:
        """The size that the listing says; without it, the storage is asked, which takes a round trip."""
        return self.size() if self.listed is None else self.listed

    def __repr__(self) -> str:
        arguments = [repr(self.name)]
        if self.filesystem is not None:
            arguments.append(f"filesystem=<{type(self.filesystem).__name__}>")
        if self.compression != "infer":
            arguments.append(f"compression={self.compression!r}")
        if self.cache is not None:
            arguments.append(f"cache={self.cache!r}")
        return f"File({', '.join(arguments)})"

    def _raw(self, part: range | None) -> NativeFile | RemoteStream:
        location = self._location()

        def open_file() -> NativeFile:
            return open_input(location, self.listed)

        try:
            if location.filesystem.type_name == "local":
                check_readable(location.path)
            if is_local(location.filesystem):
                if self.cache is not None:
                    self.cache.note_left_out(self.name, "they are on this machine", logging.INFO)
                local = open_file()
                raw: NativeFile | RemoteStream = local
                size = local.size()
            else:
                file = with_retries(lambda: self._remote(location, open_file), self.name)
                raw, size = RemoteStream(file, part), file.size
        except SourceError:
            raise
        except FileNotFoundError as error:
            self.size()  # raises a better error if it is a folder
            raise self._open_error(error) from shown_cause(error, self.path)
        except OSError as error:
            raise self._open_error(error) from shown_cause(error, self.path)
        if self.listed is not None and self.listed != size:
            raw.close()
            raise SourceError(
                f"{self.name} is not the file that was listed: that had {self.listed} bytes, and this has {size}; it "
                "has changed, so make a new pipe, and the next version of its index if it has one; or this rank sees "
                "other files than rank 0, which lists them for all ranks"
            )
        return raw

    def _remote(self, location: Location, open_file: Callable[[], NativeFile]) -> RemoteFile:
        if self.cache is None:
            return RemoteFile(self.name, open_file)
        return CachedFile(self.name, open_file, location, self.cache)

    def _location(self) -> Location:
        return locate(self.path, self.filesystem)

    def _codec(self, compression: str | None) -> str | None:
        if compression == "infer":
            compression = self.compression
        if compression != "infer":
            return compression
        name = self.path if self.filesystem is not None else split_options(self.path)[0]
        in_archive = _IN_ARCHIVE if self._location().filesystem.type_name == ARCHIVE_TYPE else None
        return next((codec for ending, codec in _ENDINGS.items() if name.endswith(ending)), in_archive)

    def _open_error(self, error: OSError) -> SourceError:
        if isinstance(error, FileNotFoundError):
            return MissingError(
                f"{self.name} is not there: it was removed since it was listed, it never was, or this rank sees other "
                "files than rank 0, which lists them for all ranks"
            )
        reason = "it is a folder" if isinstance(error, IsADirectoryError) else describe(error)
        return SourceError(f"{self.name} cannot be opened: {reason}")


@dataclass(frozen=True, repr=False)
class TableFile(File):
    """A file of a version of a table. The values of its folders' columns come from the log, not from its path.

    Attributes:
        values: the values of columns that the file does not hold, as Arrow scalars.
        table: the version of the table, for errors.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    table: str = ""

    def _open_error(self, error: OSError) -> SourceError:
        if isinstance(error, FileNotFoundError):
            return MissingError(
                f"{self.name} is not there: {self.table} lists it, so a vacuum has removed it since then; read a newer "
                "version"
            )
        return super()._open_error(error)
