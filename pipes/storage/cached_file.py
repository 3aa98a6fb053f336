"""`CachedFile`: a remote file whose blocks are kept in a `FileCache`."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

from .cache_folder import CacheFolder
from .file_cache import FileCache
from .filesystem import Location, file_infos
from .remote import RemoteFile
from .retry import Cancellation

if TYPE_CHECKING:
    from pyarrow import NativeFile

BLOCK_BYTES = 2**16
_PAGE_BYTES = 2**12
_ENTRY = struct.Struct("<II")  # of a block: a mark that it is here, and its checksum
_HERE = 0xFEED_B10C
# What fsspec's file systems call the properties by which versions of a file differ.
_VERSION_KEYS = ("ETag", "etag", "LastModified", "Last-Modified", "last_modified", "mtime", "generation", "md5Hash")


class CachedFile(RemoteFile):
    """Reads blocks from the local copy, and fetches those that are not there.

    If the process knows the version of the file, the remote file is opened only when a block is missing.

    Args:
        name: for errors.
        open_file: opens the remote file.
        location: of the remote file.
        cache: keeps the blocks.
    """

    def __init__(self, name: str, open_file: Callable[[], NativeFile], location: Location, cache: FileCache) -> None:
        self._opening = threading.Lock()
        copies = cache.copies
        place = json.dumps([location.filesystem.type_name, location.root, location.path])
        version = copies.version(place)
        if version is None:
            super().__init__(name, open_file)
            version = self.size, self.version, *_marks(self.version, location)
            copies.remember_version(place, version)
        else:
            self.name, self._open_file, self._file = name, open_file, None
            self.size, self.version = cast("int", version[0]), version[1]
        key = hashlib.blake2b(json.dumps([place, *version], default=str).encode(), digest_size=16).hexdigest()
        self._copy = LocalCopy(copies, key, self.size) if self.size <= copies.limit else None
        self._fetched = False

    def read(self, start: int, size: int, cancellation: Cancellation) -> bytes:
        copy = self._copy
        if copy is None or not size:
            return super().read(start, size, cancellation)
        blocks = range(start // BLOCK_BYTES, -(-(start + size) // BLOCK_BYTES))
        data, missing = copy.read(blocks)
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

    def _opened(self) -> NativeFile:
        with self._opening:
            if self._file is None:
                self._file = self._reopen()
            return self._file


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
        """Keeps adjacent blocks, unless there is no room."""
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
    """What a look-up says about the version of a file, if opening it did not say enough."""
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
