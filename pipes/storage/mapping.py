"""Local files mapped into memory: one mapping a file, and not more of them than a process may have."""

from __future__ import annotations

import errno
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ..errors import SourceError
from .error_messages import describe
from .file import File
from .filesystem import locate
from .tasks import Budget

if TYPE_CHECKING:
    import pyarrow as pa

_LIMIT_FILE, _MAPPINGS_FILE = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")
_USUAL_LIMIT = 65_530

_mapped: WeakValueDictionary[tuple[object, ...], npt.NDArray[np.uint8]] = WeakValueDictionary()


def mapping_limit() -> int:
    """How many mappings the system allows a process: Linux counts libraries and blocks of memory, too."""
    try:
        return int(_LIMIT_FILE.read_text())
    except (OSError, ValueError):
        return _USUAL_LIMIT


def local_path(file: File) -> str | None:
    """The path of a file that can be mapped into memory; None for a file on other storage."""
    location = locate(file.path, file.filesystem)
    return location.path if location.filesystem.type_name == "local" else None


def map_file(path: str, name: str) -> pa.Buffer:
    """Maps a local file, or gives another view of its mapping. The mapping ends with the last view.

    If the file becomes shorter later, the system ends a process that reads behind its end.

    Args:
        path: of the file.
        name: of the file, for errors.

    Raises:
        SourceError: the file cannot be mapped.
    """
    import pyarrow as pa

    try:
        status = os.stat(path)
        key = path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        memory = _mapped.get(key)
        if memory is None:
            # Unlike NumPy's and Python's maps, Arrow's keeps no file open. There may be thousands of files.
            with pa.memory_map(path) as file:
                memory = np.frombuffer(memoryview(file.read_buffer()), np.uint8)
            _room.acquire(1, needed=True)
            weakref.finalize(memory, _room.release, 1)
            _mapped[key] = memory
    except OSError as error:
        if os.strerror(errno.ENOMEM) not in str(error):
            raise SourceError(f"{name} cannot be mapped into memory: {describe(error)}") from error
        raise SourceError(
            f"{name} cannot be mapped into memory: this process has {_mapping_count()} mappings, and the system allows "
            f"{mapping_limit()}; keep fewer rows of different files, write fewer and larger files, or raise "
            "`vm.max_map_count` with `sysctl`"
        ) from error
    return pa.py_buffer(cast("Any", memory))  # its views, also those in C++, keep `memory`


def room_for_mappings() -> int:
    """How many more files may be mapped until half of what the system allows is used."""
    return _room.left()


def _mapping_count() -> int | str:
    try:
        with _MAPPINGS_FILE.open() as lines:
            return sum(1 for _ in lines)
    except OSError:
        return "too many"


def _reset() -> None:
    global _room
    _room = Budget(mapping_limit() // 2)


_room: Budget
_reset()
os.register_at_fork(after_in_child=_reset)
