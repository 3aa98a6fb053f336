"""The server that forks workers: a process without threads that has imported what all of them need.

It ends, and ends its workers, when the other end of its socket is gone: nothing outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Literal, NoReturn, TypeAlias

from .dispatch_server import dispatch
from .worker import serve

Role: TypeAlias = Literal["worker", "dispatcher"]
_ROLES: dict[Role, Callable[..., None]] = {"worker": serve, "dispatcher": dispatch}

INTERRUPTS = signal.SIGINT, signal.SIGUSR1

GRACE = 1.0
"""Seconds in which a worker may end by itself."""

KEPT = 64 << 20
"""Bytes of freed memory that a worker keeps for its next batch: to have them anew from the system, page by page, takes
a tenth of the time in which images are decoded."""
_MMAP_THRESHOLD = 32 << 20  # the most that malloc takes; by itself it goes up to there as large blocks are freed
_THE_USERS = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}


def main(fd: int) -> None:
    """Serves requests that come through `fd`: to start a worker, or to end one and say how it ended."""
    ignore_interrupts()
    # The program may ignore it, and this process with it: then nobody would learn how a child has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _preload([])
    with socket.socket(fileno=fd) as control:
        end_all(_served(control))


def _served(control: socket.socket) -> set[int]:
    """Serves until the other end is gone; the children that are left then."""
    workers: set[int] = set()
    while True:
        try:
            request, fds, _, _ = socket.recv_fds(control, 4096, 8)
        except ConnectionError:  # gone, with an answer unread
            return workers
        if not request:
            return workers
        number, what = pickle.loads(request)
        answer: object
        if isinstance(what, int):
            workers.discard(what)
            answer = ended(what)
        else:
            role, preload = what
            if not sys.modules.keys() >= set(preload):
                _preload(preload)
            answer = _fork(control, role, fds)
            workers.add(answer)
        for one in fds:
            os.close(one)
        with contextlib.suppress(ConnectionError):
            control.send(pickle.dumps((number, answer)))


def _preload(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a worker's collector does not write to, and so copy, the pages that all share


def run_alone(role: Role, fds: Sequence[int], parent: int) -> NoReturn:
    """A process that is an interpreter of its own."""
    ignore_interrupts()
    die_with_parent(parent)
    run(role, fds)


def ended(pid: int) -> tuple[int | None, int]:
    """Ends a child, if it has not ended: its exit status, negative for a signal, and the most bytes it had in use.

    The status is None where the program has taken it: by waiting for any child, or by ignoring SIGCHLD.
    """
    try:
        os.kill(pid, signal.SIGKILL)  # changes nothing for one that is ending already
        _, status, usage = os.wait4(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return None, 0
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


def end_all(pids: set[int]) -> None:
    """Ends children that have been told to end: those that do not do so soon are killed."""
    deadline = time.monotonic() + GRACE
    while pids and time.monotonic() < deadline:
        pids = {pid for pid in pids if not _over(pid)}
        if pids:
            time.sleep(0.002)
    for pid in pids:
        ended(pid)


def _over(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def ignore_interrupts() -> None:
    """Ctrl-C goes to all processes of a terminal; the one that started this one decides what it means.

    SIGUSR1 asks a worker for its stack, and may come before the worker can tell.
    """
    for interrupt in INTERRUPTS:
        signal.signal(interrupt, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)


def _fork(control: socket.socket, role: Role, fds: Sequence[int]) -> int:
    server = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    control.close()
    die_with_parent(server)
    run(role, fds)


def run(role: Role, fds: Sequence[int]) -> NoReturn:
    """A process's life, from its descriptors to its end."""
    code = 1
    try:
        keep_freed_memory()
        for fd in fds:
            os.set_inheritable(fd, False)  # what a user's function starts is not to keep them open
        _ROLES[role](*fds)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
        os._exit(code)  # what the program that was forked would do at its end is not a worker's to do


def keep_freed_memory() -> None:
    """Has malloc keep what is freed, up to `KEPT`, unless the user has told it what to do."""
    if not _THE_USERS.isdisjoint(os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):  # glibc alone has `mallopt`
        trim_threshold, mmap_threshold = -1, -3
        option = ctypes.CDLL(None).mallopt
        option(trim_threshold, KEPT)
        option(mmap_threshold, _MMAP_THRESHOLD)


def flush() -> None:
    """Writes what was printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or none at all
            stream.flush()


def die_with_parent(parent: int) -> None:
    """Has the system kill this process when its parent dies; 0 stands for a parent that it is not to die with."""
    if not parent:
        return
    with contextlib.suppress(OSError, AttributeError):  # where there is no `prctl`, as on macOS
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
