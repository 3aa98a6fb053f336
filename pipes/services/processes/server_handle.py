"""`ServerHandle`: the fork server of this process, as its owner sees it; `shared_server` gives it to each pool."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import threading
import weakref
from typing import NamedTuple

from ...errors import WorkerError
from .child import GRACE_SECONDS, Death
from .connection import hang_up, open_connection
from .interpreter import import_path, start_interpreter, thread_variables


class Surroundings(NamedTuple):
    """What a server takes over from the program when it starts, and workers from the server.

    Attributes:
        environment: the environment variables.
        path: `sys.path`.
        files: the identities of the working folder, the standard output and the standard error.
        cores: the CPU cores that the process may use.
        user: the effective user and group.
        limits: the resource limits.
    """

    environment: dict[str, str]
    path: list[str]
    files: list[tuple[int, int] | None]
    cores: set[int]
    user: tuple[int, int]
    limits: list[tuple[int, int]]

    @staticmethod
    def now(threads: int, io_threads: int) -> Surroundings:
        return Surroundings(
            environment=os.environ | thread_variables(threads, io_threads),
            path=import_path(),
            files=[_identity(file) for file in (".", 1, 2)],
            cores=os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(),
            user=(os.geteuid(), os.getegid()),
            limits=[resource.getrlimit(getattr(resource, name)) for name in _LIMITS],
        )


_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


def _identity(file: str | int) -> tuple[int, int] | None:
    """Device and number of a file; None if there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class ServerHandle:
    """A fork server. It ends when nothing refers to its handle any more, and when this process ends."""

    def __init__(self, surroundings: Surroundings, threads: int, io_threads: int) -> None:
        self._surroundings = surroundings
        with open_connection(socket.SOCK_SEQPACKET) as (ours, theirs):
            command = f"from feedpipe.services.processes.fork_server import main; main({theirs.fileno()})"
            self._process = start_interpreter(command, [theirs.fileno()], threads, io_threads)
        self._root = ours
        weakref.finalize(self, _end, ours, self._process, os.getpid())

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._root.fileno()

    def suits(self, surroundings: Surroundings) -> bool:
        """Whether the server runs, and started in the same surroundings."""
        return self._process.poll() is None and self._surroundings == surroundings

    def connect(self) -> socket.socket:
        """A connection for a pool."""
        with open_connection(socket.SOCK_SEQPACKET) as (ours, theirs):
            try:
                socket.send_fds(self._root, [b"+"], [theirs.fileno()])
            except ConnectionError:
                raise self.error() from None
        return ours

    def error(self) -> WorkerError:
        """Why the server has closed a connection."""
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(GRACE_SECONDS)
        return WorkerError(f"the process that starts workers {Death(code)}; a new loader starts another one")

    def disown(self) -> None:
        """Forgets the server, in a forked copy of this process that is not its parent."""
        self._root.close()
        self._process.returncode = 0


def _end(root: socket.socket, process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked copy of the owner
    if not hang_up(root):
        process.kill()
    process.wait()


_servers: weakref.WeakSet[ServerHandle] = weakref.WeakSet()
_kept: ServerHandle | None = None
_lock = threading.RLock()  # not a plain lock: a signal handler may start a loader, too


def shared_server(threads: int, io_threads: int) -> ServerHandle:
    """The fork server of this process; another one if it has ended, or if the surroundings have changed.

    The server that was used last is kept for the next loader.
    """
    global _kept
    surroundings = Surroundings.now(threads, io_threads)
    with _lock:
        for server in _servers:
            if server.suits(surroundings):
                _kept = server
                return server
        _kept = None  # ends it if no pool uses it, so that no two of them take memory
        _kept = ServerHandle(surroundings, threads, io_threads)
        _servers.add(_kept)
        return _kept


def kept_server() -> ServerHandle | None:
    """The server that is kept for the next loader."""
    return _kept


def _disown() -> None:
    global _kept, _lock
    for server in _servers:
        server.disown()
    _servers.clear()
    _kept = None
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_disown)
