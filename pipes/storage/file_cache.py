"""`FileCache`: a folder on a local disk that keeps copies of remote files."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import struct
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from zlib import crc32

from ..core.checks import check_bytes
from ..core.code import constructor_code
from ..core.process import PerProcess
from ..errors import ArgumentError, ArgumentTypeError, SourceError
from .filesystem import Cancellation, Location, describe, file_infos, filesystem_identity
from .remote import RemoteFile

if TYPE_CHECKING:
    from pyarrow import NativeFile

LOG = logging.getLogger("feedpipe")


@dataclass(frozen=True, repr=False)
class FileCache:
    """A folder on a local disk that keeps the parts of remote files that were read, for later epochs and processes.

    Give it to `open_files` or a reader as `cache=`. Each block of 64 KiB is fetched once, when a reader first needs it,
    and then read from the folder; if only some columns of a file are read, only these are kept. Processes, ranks and
    runs of a user may share a folder, which only that user may read. Files on this machine are read directly.

    A process asks storage for the size and the version of a file when a pipe first opens it: the ETag and the time on
    S3, the time elsewhere, which HDFS gives in seconds. A file that has changed is fetched again. If storage gives
    neither, only the size counts.
    Each block has a checksum, so a damaged copy is fetched again. If the disk is full, or the folder cannot be
    written to later on, the process reads on from the remote files and logs one warning.

    Args:
        folder: a path; the folder is made if it is missing. Nothing else may be in it.
        limit: the bytes that the copies may take. Beyond that, the copies that were used first are removed.

    Raises:
        ArgumentError: `limit` is not a size in bytes, or `folder` is empty or a URL.
        SourceError: the folder cannot be written to. It is raised when the first file is opened.

    Example:
        >>> import feedpipe as fp
        >>> cache = fp.FileCache("copies", limit="200GiB")
        >>> fp.list_files("a.csv").open_files(cache=cache)
        fp.list_files('a.csv').open_files(cache=FileCache('copies', limit='200GiB'))
    """

    folder: str | os.PathLike[str]
    _: KW_ONLY
    limit: int | str = "100GiB"
    _copies: PerProcess[CacheFolder] = field(default_factory=PerProcess, init=False, repr=False, compare=False)
    _notes: set[str] = field(default_factory=set[str], init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, os.PathLike)):
            raise ArgumentTypeError(f"`folder` must be a path but got: {self.folder!r}")
        folder = os.fspath(self.folder)
        if not folder or "://" in folder:
            raise ArgumentError(f"`folder` must be the path of a local folder but got: {folder!r}")
        object.__setattr__(self, "folder", folder)
        check_bytes("limit", self.limit)

    def __repr__(self) -> str:
        return constructor_code(self)

    @property
    def copies(self) -> CacheFolder:
        """The folder, opened for this process."""
        return self._copies.get(lambda: CacheFolder(os.fspath(self.folder), check_bytes("limit", self.limit)))

    def note_left_out(self, name: str, reason: str, level: int = logging.WARNING) -> None:
        """Say in the log, once for each reason, that the cache keeps nothing of a file."""
        if reason not in self._notes:
            self._notes.add(reason)
            LOG.log(level, "the file cache in %s keeps nothing of files such as %s: %s", self.folder, name, reason)

    def renewed(self) -> FileCache:
        """The same cache for another pipe, which looks up the versions of files itself."""
        return replace(self)


def check_file_cache(value: object) -> None:
    """Raise an `ArgumentTypeError` unless `value` is None or a `FileCache`."""
    if value is not None and not isinstance(value, FileCache):
        raise ArgumentTypeError(f"`cache` must be a `FileCache`, such as `fp.FileCache(folder)`, but got: {value!r}")


BLOCK_BYTES = 2**16
_PAGE_BYTES = 2**12
_ENTRY = struct.Struct("<II")  # of a block: a mark that it is here, and its checksum
_HERE = 0xFEED_B10C

# The properties in which versions of a file differ, as fsspec's file systems call them.
_VERSION_KEYS = ("ETag", "etag", "LastModified", "Last-Modified", "last_modified", "mtime", "generation", "md5Hash")


class CachedFile(RemoteFile):
    """Reads blocks from the local copy, and fetches those that are not there.

    If the process knows the version of the file, the remote file is opened only when a block is missing.
    """

    def __init__(self, name: str, open_file: Callable[[], NativeFile], location: Location, cache: FileCache) -> None:
        copies = cache.copies
        place = json.dumps([filesystem_identity(location.filesystem), location.root, location.path])
        version = copies.version(place)
        if version is None:
            super().__init__(name, open_file)
            version = self.size, self.version, *_marks(self.version, location)
            copies.remember_version(place, version)
        else:
            super().__init__(name, open_file, (cast("int", version[0]), version[1]))
        key = hashlib.blake2b(json.dumps([place, *version], default=str).encode(), digest_size=16).hexdigest()
        self._copy = LocalCopy(copies, key, self.size) if self.size <= copies.limit else None
        if self._copy is None:
            cache.note_left_out(name, f"they are larger than its `limit` of {copies.limit} bytes")
        self._fetched = False

    def read(self, start: int, size: int, cancellation: Cancellation) -> bytes:
        copy = self._copy
        if copy is None or not size:
            return super().read(start, size, cancellation)
        blocks = range(start // BLOCK_BYTES, -(-(start + size) // BLOCK_BYTES))
        data, missing = copy.read(blocks)
        if len(missing) < len(blocks):
            self.reads += 1  # the copy may be of another version than a later request
        for run in _runs(missing):
            begin, end = run.start * BLOCK_BYTES, min(run.stop * BLOCK_BYTES, self.size)
            self._fetched = True
            fetched = super().read(begin, end - begin, cancellation)
            copy.write(run, fetched)
            at = begin - blocks.start * BLOCK_BYTES
            data[at : at + len(fetched)] = fetched
        at = start - blocks.start * BLOCK_BYTES
        return bytes(memoryview(data)[at : at + size])

    def check_unchanged(self, cancellation: Cancellation) -> None:
        if self._fetched or self._copy is None:
            super().check_unchanged(cancellation)


class LocalCopy:
    """The local copy of one version of a file: an entry for each block, then the blocks at their places.

    An entry is written after its block, and has the block's checksum. So a block that is only half there, or was
    damaged since, counts as missing.
    """

    def __init__(self, folder: CacheFolder, key: str, size: int) -> None:
        self._folder = folder
        self._size = size
        self._begin = -(-_ENTRY.size * -(-size // BLOCK_BYTES) // _PAGE_BYTES) * _PAGE_BYTES
        self._descriptor = folder.open(key)

    def read(self, blocks: range) -> tuple[bytearray, list[int]]:
        """The bytes of adjacent blocks, and which of them are missing."""
        begin, end = blocks.start * BLOCK_BYTES, min(blocks.stop * BLOCK_BYTES, self._size)
        data = bytearray(end - begin)
        if self._descriptor is None:
            return data, [*blocks]
        try:
            entries = os.pread(self._descriptor, _ENTRY.size * len(blocks), _ENTRY.size * blocks.start)
            if any(entries):
                os.preadv(self._descriptor, [data], self._begin + begin)
        except OSError as error:
            self._folder.give_up(error)
            return data, [*blocks]
        entries = entries.ljust(_ENTRY.size * len(blocks), b"\0")
        view = memoryview(data)
        missing: list[int] = []
        for number, (here, checksum) in enumerate(_ENTRY.iter_unpack(entries)):
            part = view[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
            if here != _HERE or crc32(part) != checksum:
                missing.append(blocks.start + number)
        return data, missing

    def write(self, blocks: range, data: bytes) -> None:
        """Keep adjacent blocks, unless there is no room."""
        if self._descriptor is None or not self._folder.usable:
            return
        view = memoryview(data)
        parts = [view[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]
        entries = b"".join(_ENTRY.pack(_HERE, crc32(part)) for part in parts)
        try:
            self._folder.reserve(len(data))
            _write_all(self._descriptor, view, self._begin + blocks.start * BLOCK_BYTES)
            _write_all(self._descriptor, memoryview(entries), _ENTRY.size * blocks.start)
        except OSError as error:
            self._folder.give_up(error)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            os.close(self._descriptor)  # type: ignore[arg-type]


def _write_all(descriptor: int, data: memoryview, at: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written


def _runs(numbers: list[int]) -> Iterator[range]:
    """Sorted numbers as runs of adjacent ones."""
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield range(numbers[start], numbers[index - 1] + 1)
            start = index


def _marks(version: Any, location: Location) -> tuple[object, ...]:
    """The marks of a file's version that a look-up gives, if opening the file gave none."""
    if any(mark is not None for mark in version[1:]):
        return ()
    (info,) = file_infos(location.filesystem, [location.path])
    if info.mtime_ns is not None:
        return (info.mtime_ns,)
    fsspec: Any = getattr(getattr(location.filesystem, "handler", None), "fs", None)
    if fsspec is None:
        return ()
    properties: dict[str, object] = fsspec.info(location.path)
    return tuple(str(properties.get(key)) for key in _VERSION_KEYS)


_COUNTER = "bytes"
_COUNT = struct.Struct("<q")
_ENDING = ".copy"
_MAX_VERSIONS = 2**17


class _Copy(NamedTuple):
    last_use: int
    size: int
    path: Path


class CacheFolder:
    """Local copies by key. Each is a file, which any process may write to, remove and make again at any time.

    The number of bytes is in a file of its own, which processes lock to change it. It may be wrong after a process was
    killed, so it is counted again, from the copies, each time copies are removed.

    Attributes:
        limit: the bytes that all copies take together.
        usable: False after a copy could not be written, because the disk is full, say.
    """

    def __init__(self, path: str, limit: int) -> None:
        self.path = Path(os.path.expanduser(path))
        self.limit = limit
        self.usable = True
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[object, ...]] = {}
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            with self._locked_counter():
                pass
        except OSError as error:
            raise SourceError(
                f"the folder {path} of a `FileCache` cannot be written to: {describe(error)}; give a folder on a local "
                "disk in which this user may write"
            ) from error

    def version(self, place: str) -> tuple[object, ...] | None:
        """The version of a file that this process has looked up; None if it has not."""
        return self._versions.get(place)

    def remember_version(self, place: str, version: tuple[object, ...]) -> None:
        with self._lock:
            while len(self._versions) >= _MAX_VERSIONS:
                del self._versions[next(iter(self._versions))]
            self._versions[place] = version

    def open(self, key: str) -> int | None:
        """A descriptor of the copy with that key, which is made if it is missing. It now counts as used last."""
        if not self.usable:
            return None
        folder = f"{self.path}/{key[:2]}"
        path = f"{folder}/{key[2:]}{_ENDING}"
        try:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                os.makedirs(folder, 0o700, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.utime(descriptor if os.utime in os.supports_fd else path)
        except OSError as error:
            self.give_up(error)
            return None
        return descriptor

    def reserve(self, size: int) -> None:
        """Count `size` bytes more; without room for them, remove the copies that were used first."""
        with self._locked_counter() as counter:
            data = os.pread(counter, _COUNT.size + 1, 0)
            used = _COUNT.unpack(data)[0] if len(data) == _COUNT.size else self.limit
            if used + size > self.limit:
                used = self._make_room(size)
            os.pwrite(counter, _COUNT.pack(used + size), 0)

    def give_up(self, error: OSError) -> None:
        """Write no more copies in this process, and say so once."""
        with self._lock:
            usable, self.usable = self.usable, False
        if usable:
            LOG.warning(
                "the file cache in %s cannot be filled: %s; this process reads the remote files from now on",
                self.path,
                describe(error),
            )

    @contextlib.contextmanager
    def _locked_counter(self) -> Generator[int]:
        # A lock belongs to one call of `open`, so it also keeps out other threads.
        descriptor = os.open(self.path / _COUNTER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_room(self, size: int) -> int:
        """Remove copies until a tenth of the limit, and `size` bytes, are free; return the bytes that are left."""
        copies = sorted(self._copies())
        used = sum(copy.size for copy in copies)
        if used + size <= self.limit:  # the counter was wrong
            return used
        for copy in copies:
            if used + size <= self.limit - self.limit // 10:
                break
            with contextlib.suppress(OSError):
                copy.path.unlink()
                used -= copy.size
        return used

    def _copies(self) -> Iterator[_Copy]:
        for path in self.path.glob(f"??/*{_ENDING}"):
            with contextlib.suppress(OSError):
                status = path.stat()
                yield _Copy(status.st_mtime_ns, status.st_blocks * 512, path)
