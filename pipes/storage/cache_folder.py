"""`CacheFolder`: a folder of local copies, of at most so many bytes, that several processes fill at once."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import struct
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import SourceError
from .error_messages import describe

LOG = logging.getLogger("feedpipe")

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
    killed. So it is counted anew, from the copies, each time copies are removed.

    Args:
        path: the folder; it is made if it is missing.
        limit: the bytes that all copies take together.

    Raises:
        SourceError: the folder cannot be made or written to.

    Attributes:
        usable: False after a copy could not be written, because the disk is full, say.
    """

    def __init__(self, path: str, limit: int) -> None:
        self.path = Path(os.path.expanduser(path))
        self.limit = limit
        self.usable = True
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[object, ...]] = {}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
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
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except FileNotFoundError:
                os.makedirs(folder, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.utime(descriptor)
        except OSError as error:
            self.give_up(error)
            return None
        return descriptor

    def reserve(self, size: int) -> None:
        """Counts `size` bytes more. Removes copies if there is no room for them, those first that were used first."""
        with self._locked_counter() as counter:
            data = os.pread(counter, _COUNT.size + 1, 0)
            used = _COUNT.unpack(data)[0] if len(data) == _COUNT.size else self.limit
            if used + size > self.limit:
                used = self._make_room(size)
            os.pwrite(counter, _COUNT.pack(used + size), 0)

    def give_up(self, error: OSError) -> None:
        """Writes no more copies in this process, and says so once."""
        with self._lock:
            usable, self.usable = self.usable, False
        if usable:
            LOG.warning(
                "the file cache in %s cannot be filled: %s; this process now reads the files from where they are",
                self.path,
                describe(error),
            )

    @contextlib.contextmanager
    def _locked_counter(self) -> Generator[int]:
        # A lock belongs to one call of `open`, so it also keeps out other threads.
        descriptor = os.open(self.path / _COUNTER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_room(self, size: int) -> int:
        """Removes copies until a tenth of the limit, and `size` bytes, are free; returns how many bytes are left."""
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
