"""What Linux has and macOS lacks: the calls for which macOS needs another way, and that way."""

from __future__ import annotations

import os
from importlib import import_module


def cpu_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def create_shared_memory(size: int) -> int:
    """The descriptor of an anonymous file of `size` bytes. A page takes memory once it is written to.

    Linux has `memfd_create`; macOS, POSIX shared memory, which loses its name at once.

    Raises:
        OSError: there is no room for one.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("feedpipe", os.MFD_CLOEXEC)
    else:
        posix = import_module("_posixshmem")  # `multiprocessing.shared_memory` stands on it
        name = f"/fp-{os.urandom(8).hex()}"  # macOS allows 31 characters
        fd = posix.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
        posix.shm_unlink(name)
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return int(fd)


def create_shared_file() -> int:
    """The descriptor of an empty file without a name: in memory, or on disk if the system has no such files."""
    if hasattr(os, "memfd_create"):  # POSIX shared memory cannot be written or grow on macOS
        try:
            return create_shared_memory(0)
        except OSError:
            pass
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def nonblocking_pipe() -> tuple[int, int]:
    """The ends of a pipe that no other program inherits; reading and writing never wait."""
    if hasattr(os, "pipe2"):
        return os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends
