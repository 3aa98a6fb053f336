"""The fork server: a process without threads that has imported what all workers need, and forks them.

When the other end of its socket is closed, it ends its workers and itself: nothing outlives the process that started
it.
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

GRACE_SECONDS = 1.0
"""A worker has this time to end by itself."""

KEPT_BYTES = 64 << 20
"""A worker keeps so much freed memory for its next batch: getting it from the system again, page by page, takes a tenth
of the time of decoding images."""
_MMAP_THRESHOLD_BYTES = 32 << 20  # malloc's maximum, which it reaches by itself as large blocks are freed
_MALLOC_VARIABLES = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}


def main(fd: int) -> None:
    """Serves requests that come through `fd`: to start a process, or to end one and report how it ended."""
    ignore_interrupts()
    # If the program ignores SIGCHLD, this process has inherited that, and could not learn how a child has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _preload([])
    with socket.socket(fileno=fd) as control:
        wait_or_kill(_serve(control))


def _serve(control: socket.socket) -> set[int]:
    """Serves until the other end is closed; returns the children that are left."""
    children: set[int] = set()
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(control, 4096, 8)
        except ConnectionError:  # the other end was closed before it had read an answer
            return children
        if not data:
            return children
        number, request = pickle.loads(data)
        answer: object
        if isinstance(request, int):
            children.discard(request)
            answer = kill_and_wait(request)
        else:
            role, preload = request
            if not sys.modules.keys() >= set(preload):
                _preload(preload)
            answer = _fork(control, role, fds)
            children.add(answer)
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(ConnectionError):
            control.send(pickle.dumps((number, answer)))


def _preload(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else a worker's garbage collector would write to the shared pages, and so copy them


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


def _fork(control: socket.socket, role: Role, fds: Sequence[int]) -> int:
    server = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    control.close()
    die_with_parent(server)
    run(role, fds)


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
