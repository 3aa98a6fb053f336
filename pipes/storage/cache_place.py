"""The folder of one cache: below the user's, or a temporary one in shared memory."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "feedpipe-cache-"
_LOCK = "lock"


class TemporaryFolder:
    """A folder in shared memory that is removed with this object, at the latest when the process ends.

    A lock says that its owner lives. So folders that a killed process has left are removed by the next one.
    """

    def __init__(self) -> None:
        base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        _remove_abandoned(base)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def __reduce__(self) -> tuple[object, ...]:
        return type(None), ()  # only its owner removes it


def other_caches(folder: Path, key: str) -> int:
    """How many other caches are in the user's folder."""
    try:
        return sum(1 for entry in os.scandir(folder) if entry.is_dir() and entry.name != key)
    except OSError:
        return 0


def _remove(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _remove_abandoned(base: Path) -> None:
    for path in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
