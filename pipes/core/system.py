"""What feedpipe asks of the system beyond Python's own promises, and what it does where the system lacks it.

All calls that macOS or Windows may lack, and that a pipe in this process or in threads needs, are here. Worker
processes need more, which `no_worker_processes` looks for.
"""

from __future__ import annotations

import importlib
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any


def _module(name: str) -> Any:
    """A module of Python that some systems lack; None here if this one does."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


fcntl = _module("fcntl")

CLOSED_BY_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
"""The flags of each file that this package opens by `os.open`."""


def after_fork(function: Callable[[], object]) -> None:
    """Call `function` in each process that is forked of this one from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def no_worker_processes() -> str | None:
    """What the system lacks for worker processes, in words; None if it lacks nothing."""
    needed = {
        "`fork`": hasattr(os, "fork"),
        "Unix sockets that carry descriptors": hasattr(socket, "AF_UNIX") and hasattr(socket, "send_fds"),
        "signal masks": hasattr(signal, "pthread_sigmask"),
    }
    missing = [name for name, is_there in needed.items() if not is_there]
    return f"this system ({sys.platform}) has no {' and no '.join(missing)}" if missing else None


# CPUs and memory


def cpu_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def yield_core() -> None:
    """Let another process run on the core of this thread."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)


def memory_bytes() -> int:
    """The memory of the machine."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ulong), ("load", ctypes.c_ulong), ("total", ctypes.c_ulonglong)] + [
            (name, ctypes.c_ulonglong) for name in "abcdef"
        ]

    status = Status(length=ctypes.sizeof(Status))
    windows: Any = getattr(ctypes, "windll", None)
    if windows is None or not windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return _USUAL_BYTES
    return int(status.total)


_USUAL_BYTES = 2**33


# Files


def lock(descriptor: int, *, wait: bool = True) -> None:
    """Lock an open file, or a folder, against other calls of `open`. Closing it ends the lock.

    Windows locks a byte, far behind what a file of ours holds.

    Raises:
        OSError: the lock is taken, and `wait` is False.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    windows = _module("msvcrt")
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    while True:
        try:
            windows.locking(descriptor, windows.LK_LOCK if wait else windows.LK_NBLCK, 1)
            return
        except OSError:  # it has waited for ten seconds
            if not wait:
                raise


_LOCKED_BYTE = 2**30
_seeking = threading.Lock()


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Read bytes of a file, wherever other threads read and write it by these functions."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    with _seeking:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


def read_into(descriptor: int, buffer: bytearray, offset: int) -> int:
    """Fill a buffer with bytes of a file, as `read_at`; return how many there were."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    data = read_at(descriptor, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    """Write bytes into a file, as `read_at`; return how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, offset)
    with _seeking:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data)


def stored_bytes(status: os.stat_result) -> int:
    """The bytes that a file takes on its disk; fewer than its size if it has holes and the system says so."""
    return status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size


# Memory for processes


def create_shared_memory(size: int) -> int:
    """The descriptor of an anonymous file of `size` bytes. A page takes memory once it is written to.

    Linux has `memfd_create`; macOS, POSIX shared memory, which loses its name at once.

    Raises:
        OSError: the system has no such files, or no room for one.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("feedpipe", os.MFD_CLOEXEC)
    else:
        posix = _module("_posixshmem")  # `multiprocessing.shared_memory` stands on it
        if posix is None:
            raise OSError("this system has no shared memory without a name")
        name = f"/fp-{secrets.token_hex(8)}"  # macOS allows 31 characters
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
