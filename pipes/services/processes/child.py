"""A child process: how it runs from its descriptors to its end, and how its parent ends it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from .dispatch_server import dispatch
from .worker import serve

Role: TypeAlias = Literal["worker", "dispatcher"]
_ROLES: dict[Role, Callable[..., None]] = {"worker": serve, "dispatcher": dispatch}

INTERRUPTS = signal.SIGINT, signal.SIGUSR1

GRACE_SECONDS = 1.0
"""A worker has this time to end by itself."""

KEPT_BYTES = 64 << 20
"""A worker keeps so much freed memory for its next batch: getting it from the system again, page by page, takes a tenth
of the time of decoding images."""
_MMAP_THRESHOLD_BYTES = 32 << 20  # malloc's maximum, which it reaches by itself as large blocks are freed
_MALLOC_VARIABLES = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}


class Death(NamedTuple):
    """How a process ended.

    Attributes:
        code: its exit status, or the negative number of the signal that killed it; None if it is not known.
        peak: the most bytes of memory that it had in use; 0 if that is not known.
    """

    code: int | None
    peak: int = 0

    def __str__(self) -> str:
        if self.code is None:
            return "has ended"
        how = f"exited with status {self.code}"
        if self.code < 0:
            how = f"was killed by {signal.Signals(-self.code).name}"
            if self.code == -signal.SIGKILL:
                how += " (by the system, if it was out of memory)"
        return how + (f" and had used up to {self.peak / 2**20:.0f} MiB of memory" if self.peak else "")


def run_alone(role: Role, fds: Sequence[int], parent: int) -> NoReturn:
    """Runs a process that is an interpreter of its own."""
    ignore_interrupts()
    die_with_parent(parent)
    run(role, fds)


def kill_and_wait(pid: int) -> tuple[int | None, int]:
    """Ends a child.

    Returns:
        Its exit status, negative for a signal, and the most bytes of memory it had in use. The status is None if the
        program has taken it by waiting for any child or by ignoring SIGCHLD.
    """
    try:
        os.kill(pid, signal.SIGKILL)  # has no effect on a child that has ended already
        _, status, usage = os.wait4(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return None, 0
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


def wait_or_kill(pids: set[int]) -> None:
    """Waits for children that have been told to end, and kills those that take too long."""
    deadline = time.monotonic() + GRACE_SECONDS
    while pids and time.monotonic() < deadline:
        pids = {pid for pid in pids if not _has_ended(pid)}
        if pids:
            time.sleep(0.002)
    for pid in pids:
        kill_and_wait(pid)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def ignore_interrupts() -> None:
    """Ignores Ctrl-C, which goes to all processes of a terminal: the program decides what it means.

    SIGUSR1 asks a worker for its stack, and may arrive before the worker can answer.
    """
    for interrupt in INTERRUPTS:
        signal.signal(interrupt, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)


def run(role: Role, fds: Sequence[int]) -> NoReturn:
    """Runs a process from its descriptors to its end."""
    code = 1
    try:
        keep_freed_memory()
        for fd in fds:
            os.set_inheritable(fd, False)  # a process that a user's function starts must not keep them open
        _ROLES[role](*fds)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
        os._exit(code)  # skips the exit handlers of the program that was forked


def keep_freed_memory() -> None:
    """Has malloc keep up to `KEPT_BYTES` of freed memory, unless the user has configured malloc."""
    if not _MALLOC_VARIABLES.isdisjoint(os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):  # only glibc has `mallopt`
        trim_threshold, mmap_threshold = -1, -3
        option = ctypes.CDLL(None).mallopt
        option(trim_threshold, KEPT_BYTES)
        option(mmap_threshold, _MMAP_THRESHOLD_BYTES)


def flush() -> None:
    """Writes buffered output."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the stream may be closed or None
            stream.flush()


def die_with_parent(parent: int) -> None:
    """Has the system kill this process when its parent dies; 0 stands for a parent that the process may outlive."""
    if not parent:
        return
    with contextlib.suppress(OSError, AttributeError):  # macOS has no `prctl`
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
