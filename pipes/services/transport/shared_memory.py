"""Memory that processes share: an anonymous file, gone with the last process that has it open."""

from __future__ import annotations

import os
import tempfile


def shared_memory(size: int) -> int:
    """The descriptor of an anonymous file of `size` bytes; its pages take memory once they are written to.

    Raises:
        OSError: the machine has no such files, or no room for one.
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


def shared_file() -> int:
    """The descriptor of an empty file that has no name: in memory, or on disk where the system has no such files."""
    try:
        return shared_memory(0)
    except OSError:
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
