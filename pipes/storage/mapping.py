"""Files mapped into memory, and values read from files, such as footers, that a process keeps."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.lazy import pa
from ..errors import SourceError
from .file import File, Stream
from .filesystem import describe, file_infos, is_local, locate
from .remote import RemoteFile
from .tasks import Task

_LIMIT_FILE = Path("/proc/sys/vm/max_map_count")
_USUAL_LIMIT = 65_530


class _Mapped(weakref.ref[npt.NDArray[np.uint8]]):
    """A mapping. When it is freed, only a function in C runs, for Python drops a KeyboardInterrupt there."""

    __slots__ = ("key",)

    key: tuple[object, ...]


_mapped: dict[tuple[object, ...], _Mapped] = {}
_freed: deque[weakref.ref[Any]] = deque()


def mapping_limit() -> int:
    """The number of mappings that a process may have; Linux counts libraries and blocks of memory, too."""
    try:
        return int(_LIMIT_FILE.read_text())
    except (OSError, ValueError):
        return _USUAL_LIMIT


def local_path(file: File) -> str | None:
    """The path of a file that can be mapped into memory; None for a file on other storage."""
    location = locate(file.path, file.filesystem)
    return location.path if location.filesystem.type_name == "local" else None


def file_size(path: str) -> int | None:
    """The bytes of a local file; None if it is not there any more, and lives on as a mapping."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def map_file(path: str, name: str) -> pa.Buffer:
    """Map a local file, or give another view of its mapping. The mapping ends with the last view.

    If the file becomes shorter later, the system ends a process that reads beyond its end. Errors show its `name`.
    """
    try:
        status = os.stat(path)
        key = path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        _forget_freed()
        mapped = _mapped.get(key)
        memory = None if mapped is None else mapped()
        if memory is None:
            # Unlike NumPy's and Python's maps, Arrow's keeps no file open. There may be thousands of files.
            with pa.memory_map(path) as file:
                memory = np.frombuffer(memoryview(file.read_buffer()), np.uint8)
            _mapped[key] = mapped = _Mapped(memory, _freed.append)
            mapped.key = key
    except OSError as error:
        if os.strerror(errno.ENOMEM) not in str(error):
            raise SourceError(f"{name} cannot be mapped into memory: {describe(error)}") from error
        raise SourceError(
            f"{name} cannot be mapped into memory: the system allows a process {mapping_limit()} mappings; keep fewer "
            "rows of different files, write fewer and larger files, or raise `vm.max_map_count` with `sysctl`"
        ) from error
    return pa.py_buffer(cast("Any", memory))  # its views, also those in C++, keep `memory`


@lru_cache(maxsize=1)
def _most_files() -> int:
    """Half of what the system allows; the rest is for other uses."""
    return mapping_limit() // 2


def room_for_mappings() -> int:
    """The number of files that may still be mapped; below 0 if more are than should be."""
    _forget_freed()
    return _most_files() - len(_mapped)


def _forget_freed() -> None:
    with suppress(IndexError):
        while True:
            mapped = cast("_Mapped", _freed.popleft())
            if _mapped.get(mapped.key) is mapped:
                del _mapped[mapped.key]


# Values of files


T = TypeVar("T")


class FileValues(Generic[T]):
    """A value for each file. The values used last are kept, as many as the budget has room for.

    Args:
        budget: the bytes that the values take together; the newest value is kept whatever its size.
        size: how many bytes a value takes.
    """

    def __init__(self, budget: int, size: Callable[[T], int]) -> None:
        self._budget = budget
        self._size = size
        self.clear()

    def clear(self) -> None:
        """Drop all values. A forked process does so, because another thread may hold the lock of its parent."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[object, ...], _Entry[T]] = OrderedDict()
        self._bytes = 0

    def get(self, file: File, version: object, read: Callable[[], T]) -> T:
        """The value of a file of this version: the one that is kept, else what `read()` returns.

        If several threads ask for it at the same time, one of them reads it.
        """
        key = id(file.filesystem), file.path, getattr(file.path, "root", 0)
        while True:
            with self._lock:
                entry = self._entries.get(key)
                ours = entry is None or entry.version != version
                if entry is None or ours:
                    self._remove(key)
                    entry = self._entries[key] = _Entry(file.filesystem, version, Task(read))
                self._entries.move_to_end(key)
            try:
                value = entry.value.result()
            except BaseException:
                with self._lock:
                    if self._entries.get(key) is entry:
                        self._remove(key)
                if ours:
                    raise
                continue  # the stream of another thread failed; this one may not
            if ours:
                self._count(key, entry, self._size(value))
            return value

    def _count(self, key: tuple[object, ...], entry: _Entry[T], size: int) -> None:
        with self._lock:
            if self._entries.get(key) is not entry:  # another version has taken its place
                return
            entry.size = size
            self._bytes += size
            while self._bytes > self._budget and len(self._entries) > 1:
                self._remove(next(iter(self._entries)))

    def _remove(self, key: tuple[object, ...]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    """A value, the version of its file, and how many bytes it takes; it keeps the file system, whose `id` is a key."""

    filesystem: object
    version: object
    value: Task[T]
    size: int = 0


class ValuesInUse(Generic[T]):
    """A value for each version of a file, which lives as long as somebody holds it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all values; see `FileValues.clear`."""
        self._lock = threading.Lock()
        self._values: weakref.WeakValueDictionary[tuple[object, ...], T] = weakref.WeakValueDictionary()
        self._tasks: dict[tuple[object, ...], Task[T]] = {}

    def get(self, file: File, version: Hashable, make: Callable[[], T]) -> T:
        """The value of a file of this version: the one that somebody holds, else what `make()` returns.

        If several threads ask for it at the same time, one of them makes it.
        """
        key = id(file.filesystem), file.path, file.cache, version
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                return value
            task = self._tasks.setdefault(key, Task(make))
        try:
            value = task.result()
            with self._lock:
                self._values[key] = value
        finally:
            with self._lock:
                if self._tasks.get(key) is task:
                    del self._tasks[key]
        return value


_objects = ValuesInUse[RemoteFile]()
os.register_at_fork(after_in_child=_objects.clear)


def open_version(file: File) -> tuple[Stream, object]:
    """Open a file as it is, and return its version, a value that differs once the file has been replaced.

    A version has the size and, if storage gives them, the time of the last change, the ETag on S3, and the inode of a
    local file. That of a file on S3 which is as its listing says is `File.listed_version`.
    """
    before = _local_version(file)
    stream = file.open(None)
    if stream.remote is not None:
        return stream, _remote_version(file, stream.remote.file)
    # A file that is replaced just now has no version that another one could have.
    return stream, before if before is not None and before == _local_version(file) else object()


def open_object(file: File, seal: int) -> tuple[RemoteFile, object]:
    """Open a file in an object store, unless it is open already, and return its version, as `open_version` does.

    `seal` is that of the footer which the caller knows. A pipe that is older may hold an object which was replaced.
    """

    def opened() -> RemoteFile:
        with file.open(None) as stream:
            assert stream.remote is not None, "objects are remote"
            return stream.remote.file

    remote = _objects.get(file, seal, opened)
    return remote, _remote_version(file, remote)


def _remote_version(file: File, remote: RemoteFile) -> object:
    listed = file.listed_version()
    return remote.version if listed is None or listed != (remote.size, remote.changed()) else listed


def _local_version(file: File) -> object:
    location = locate(file.path, file.filesystem)
    try:
        if location.filesystem.type_name == "local":
            status = os.stat(location.path)
            return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        if not is_local(location.filesystem):
            return None
        (info,) = file_infos(location.filesystem, [location.path])
    except OSError:
        return None
    return info.size, info.mtime_ns
