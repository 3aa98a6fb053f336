"""Memory that processes share: an anonymous file, which is gone when no process has it open any more."""

from __future__ import annotations

import os
import tempfile


def create_shared_memory(size: int) -> int:
    """The descriptor of an anonymous file of `size` bytes. A page takes memory once it is written to.

    Raises:
        OSError: the system has no such files, or no room for one.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no `memfd_create`")
    fd = os.memfd_create("feedpipe", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd


def create_shared_file() -> int:
    """The descriptor of an empty file without a name: in memory, or on disk if the system has no such files."""
    try:
        return create_shared_memory(0)
    except OSError:
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
