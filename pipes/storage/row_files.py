"""Files of rows that are kept for later epochs and runs, and their folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.ending import Ending
from ..errors import SourceError
from .filesystem import describe
from .mapping import map_file

Memory: TypeAlias = npt.NDArray[np.uint8]

LOG = logging.getLogger("feedpipe")

_MAGIC = b"feedpipe rows 1\n"
_PREFIX = struct.Struct("<16sQQ")  # the magic, and the length and the checksum of the head
_ALIGNMENT = 64
_ENDING = ".rows"
_TICK_NS = 2 * 10**7
"""Two changes of a folder may have the same time if they come within a tick of the system's clock."""
ABANDONED_SECONDS = 3600
"""An unfinished file that is older than this belongs to a process that was killed."""


class RowFile(NamedTuple):
    """A file whose head was read: its name, the values of its writer, and the first part of its memory."""

    name: str
    head: dict[str, Any]
    keys: Memory


class NoRoomError(Exception):
    """A file could not be written, because the limit or the disk is reached; the text says which."""


class RowFiles:
    """The files in a folder, which several processes fill at once. No file is changed after it was written.

    Args:
        limit: the bytes that all files take together; None for as many as the disk holds.
        sums: whether the sum of a file is checked when it is opened, for which all of it is read.

    Attributes:
        bytes: the size of all files that this process has seen.
        usable: False if there is no room, or a file could not be written.
    """

    def __init__(self, folder: Path, limit: int | None, *, sums: bool = True) -> None:
        self.folder = folder
        self.limit = limit
        self._sums = sums
        self.bytes = 0
        self.usable = True
        self._names: set[str] = set()
        self._changed = -1
        try:
            folder.mkdir(0o700, parents=True, exist_ok=True)
            probe = self._temporary()
            probe.touch()
            probe.unlink()
            self._remove_abandoned()
        except OSError as error:
            raise SourceError(
                f"the folder {folder} cannot be written to: {describe(error)}; give a folder in which this user may "
                "write"
            ) from error

    def new(self) -> list[RowFile]:
        """The files that are new since the last call; those that are damaged are removed."""
        try:
            changed = os.stat(self.folder).st_mtime_ns
            if changed == self._changed:
                return []
            names = [name for name in os.listdir(self.folder) if name.endswith(_ENDING) and name not in self._names]
        except OSError:  # somebody has removed the folder
            return []
        self._changed = changed if abs(time.time_ns() - changed) > _TICK_NS else -1
        files: list[RowFile] = []
        for name in sorted(names):
            self._names.add(name)
            try:
                file = self._read_head(name)
            except (OSError, ValueError, KeyError):
                self.remove(name)
                continue
            files.append(file)
        return files

    def write(self, head: dict[str, Any], keys: Memory, parts: Sequence[Memory]) -> RowFile:
        """Write a file; a `NoRoomError` says that there is no room for it, nor for any other."""
        sizes = [len(keys), *map(len, parts)]
        checksums = [_checksum(keys), sum(map(_checksum, parts)) % 2**64 if self._sums else 0]
        text = json.dumps({"head": head, "sizes": sizes, "checksums": checksums}).encode()
        text = text.ljust(-(-(len(text) + _PREFIX.size) // _ALIGNMENT) * _ALIGNMENT - _PREFIX.size)
        size = _PREFIX.size + len(text) + sum(map(_padded_size, sizes))
        if self.limit is not None and self.bytes + size > self.limit:
            self.usable = False
            raise NoRoomError(f"it holds {self.bytes} bytes, and its `limit` is {self.limit}")
        name = os.urandom(8).hex() + _ENDING
        temporary = self._temporary()
        try:
            with open(temporary, "xb", opener=partial(os.open, mode=0o600)) as file:
                file.write(_PREFIX.pack(_MAGIC, len(text), _checksum(_memory(text))))
                file.write(text)
                for part in (keys, *parts):
                    file.write(part.data)
                    file.write(bytes(-len(part) % _ALIGNMENT))
            os.rename(temporary, self.folder / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            self.usable = False
            raise NoRoomError(describe(error)) from error
        self._names.add(name)
        self.bytes += size
        return RowFile(name, head, keys)

    def parts(self, name: str) -> list[Memory] | None:
        """The memory of a file, without the keys; None if the file is gone, or damaged, in which case it is removed."""
        try:
            return self._read_parts(name)
        except (SourceError, OSError, ValueError, KeyError):
            self.remove(name)
            return None

    def remove(self, name: str) -> None:
        """Remove a damaged file."""
        with contextlib.suppress(OSError):
            (self.folder / name).unlink()
            LOG.warning("%s is damaged and was removed; its rows are made again", self.folder / name)

    def _temporary(self) -> Path:
        return self.folder / f"{os.urandom(8).hex()}.{os.getpid()}.part"

    def _remove_abandoned(self) -> None:
        """Remove the unfinished files of processes that were killed."""
        for path in self.folder.glob("*.part"):
            with contextlib.suppress(OSError):  # another process does the same
                if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    path.unlink()

    def _read_head(self, name: str) -> RowFile:
        with open(self.folder / name, "rb") as file:
            magic, length, checksum = _PREFIX.unpack(file.read(_PREFIX.size).ljust(_PREFIX.size, b"\0"))
            size = os.fstat(file.fileno()).st_size
            if magic != _MAGIC or length > size:
                raise ValueError("no file of rows")
            text = file.read(length)
            if _checksum(_memory(text)) != checksum:
                raise ValueError("the head is damaged")
            content = json.loads(text)
            sizes, checksums = content["sizes"], content["checksums"]
            keys = _memory(file.read(_padded_size(sizes[0])))
            if size != _PREFIX.size + length + sum(map(_padded_size, sizes)) or _checksum(keys) != checksums[0]:
                raise ValueError("the keys are damaged")
        self.bytes += size
        return RowFile(name, content["head"], keys[: sizes[0]])

    def _read_parts(self, name: str) -> list[Memory]:
        path = str(self.folder / name)
        memory = np.frombuffer(memoryview(map_file(path, path)), np.uint8)
        _, length, _ = _PREFIX.unpack(memory[: _PREFIX.size].tobytes())
        content = json.loads(memory[_PREFIX.size : _PREFIX.size + length].tobytes())
        at = _PREFIX.size + length + _padded_size(content["sizes"][0])
        if self._sums and _checksum(memory[at:]) != content["checksums"][1]:
            raise ValueError("the rows are damaged")
        parts: list[Memory] = []
        for size in content["sizes"][1:]:
            if at + size > len(memory):
                raise ValueError("the rows are cut off")
            parts.append(memory[at : at + size])
            at += _padded_size(size)
        return parts


def _padded_size(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _memory(data: bytes) -> Memory:
    return np.frombuffer(data, np.uint8)


def _checksum(memory: Memory) -> int:
    """The sum of the words, which zeros behind them do not change. It takes 10 GB/s, and differs if a page is lost."""
    whole = len(memory) // 8 * 8
    last = int.from_bytes(memory[whole:].tobytes(), "little")
    return (int(np.add.reduce(memory[:whole].view(np.uint64), initial=np.uint64(0))) + last) % 2**64


# Folders of caches


_SHARED_MEMORY = Path("/dev/shm")
_PLACE_PREFIX = "feedpipe-cache-"
_LOCK_FILE = ".lock"


class TemporaryFolder:
    """A folder in shared memory that is removed with this object, at the latest when the process ends.

    A lock says that its owner lives. So folders that a killed process has left are removed by the next one.
    """

    def __init__(self) -> None:
        import tempfile

        base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        _remove_abandoned(base)
        self.path, descriptor = _new_folder(base)
        self._ending = Ending(self, partial(_remove, self.path, descriptor, os.getpid()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(None), ()  # only its owner removes it


def other_caches(folder: Path, key: str) -> int:
    """The number of other caches in the user's folder."""
    try:
        return sum(1 for entry in os.scandir(folder) if entry.is_dir() and entry.name != key)
    except OSError:
        return 0


def _remove(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it
        import shutil

        os.close(descriptor)
        shutil.rmtree(path, ignore_errors=True)


def _new_folder(base: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor that locks it."""
    import tempfile

    while True:  # another process may take it for abandoned before it is locked
        path = Path(tempfile.mkdtemp(prefix=_PLACE_PREFIX, dir=base))
        with suppress(FileNotFoundError):
            descriptor = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return path, descriptor
            os.close(descriptor)


def _remove_abandoned(base: Path) -> None:
    import shutil

    for path in base.glob(f"{_PLACE_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
