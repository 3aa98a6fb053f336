"""The fork server, a process without threads, and the child processes that it forks.

One server serves all pools of a process. It receives a connection for each pool through its root connection. When the
other end of a connection is closed, the server ends the processes of that pool; when the other end of the root is
closed, it ends all of them and itself. So nothing outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from typing import Literal, NamedTuple, NoReturn, TypeAlias, cast

from ..transport import importable
from ..transport.graph_file import imports_of
from .dispatch import dispatch
from .surroundings import SURROUNDINGS, enter, read
from .worker import serve

Role: TypeAlias = Literal["worker", "dispatcher"]
_ROLES: dict[Role, Callable[..., None]] = {"worker": serve, "dispatcher": dispatch}

OWNERS_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2
"""Signals that a terminal or a scheduler sends to all processes of a job. The program decides what they mean: it
may want one more batch before its checkpoint, so its helpers serve it as long as it runs, and end with it."""

GRACE_SECONDS = 1.0
"""A worker has this time to end by itself."""

KEPT_BYTES = 64 << 20
"""The freed memory that a worker keeps for its next batch. To get it from the system again, page by page, takes a tenth
of the time of decoding images."""
_MMAP_THRESHOLD_BYTES = 32 << 20  # malloc's maximum, which it reaches by itself as large blocks are freed
_MALLOC_VARIABLES = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}


class Death(NamedTuple):
    """How a process ended: its exit status, or the negative number of its signal; None if it is not known.

    `peak` are the most bytes of memory that it had in use; 0 if that is not known.
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


def leave_signals_to_owner() -> None:
    """Survive the signals that mean the program. Processes that a user's function starts get the defaults."""
    for number in OWNERS_SIGNALS:
        signal.signal(number, _survive)  # unlike SIG_IGN, it does not reach what this process executes
        signal.siginterrupt(number, False)
    os.register_at_fork(after_in_child=_restore_defaults)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, OWNERS_SIGNALS)


def _survive(number: int, frame: object) -> None:
    pass


def _restore_defaults() -> None:
    for number in OWNERS_SIGNALS:
        if signal.getsignal(number) is _survive:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def owners_signals_blocked() -> Generator[None]:
    """Delay these signals meanwhile; a process that starts here inherits that until it leaves them to its owner."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OWNERS_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(role: Role, fds: Sequence[int]) -> NoReturn:
    """Run a process from its descriptors to its end; the first ones are those of its surroundings."""
    code = 1
    try:
        enter(*fds[:SURROUNDINGS])
        fds = fds[SURROUNDINGS:]
        keep_freed_memory()
        for fd in fds:
            os.set_inheritable(fd, False)  # a process that a user's function starts must not keep them open
        exit_with_owner(fds[0])
        _ROLES[role](*fds)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
        os._exit(code)  # an interpreter takes long to end


def keep_freed_memory() -> None:
    """Have malloc keep up to `KEPT_BYTES` of freed memory, unless the user has configured malloc."""
    if not _MALLOC_VARIABLES.isdisjoint(os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):  # only glibc has `mallopt`
        trim_threshold, mmap_threshold = -1, -3
        option = ctypes.CDLL(None).mallopt
        option(trim_threshold, KEPT_BYTES)
        option(mmap_threshold, _MMAP_THRESHOLD_BYTES)


def flush() -> None:
    """Write buffered output."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the stream may be closed or None
            stream.flush()


def die_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent dies."""
    with contextlib.suppress(OSError, AttributeError):  # macOS has no `prctl`
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_EXIT_SECONDS = 0.5
"""A process has this time to notice by itself that its owner is gone."""


def exit_with_owner(control: int) -> None:
    """End this process soon after the other end of `control` is closed, whatever the process is doing."""
    poll = select.poll()
    poll.register(control, 0)  # without events, `poll` reports only that the other end is closed

    def watch() -> None:
        poll.poll()
        threading.Event().wait(_EXIT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="feedpipe-watch", daemon=True).start()


# The server.


class Imports(NamedTuple):
    """Modules for the server to import, each with the file that the program has imported, "" for another.

    `excluded` are packages that start threads when they are imported: each worker has to import them itself.
    """

    names: dict[str, str]
    path: list[str]
    excluded: list[str]


Order: TypeAlias = tuple[Role, Imports] | int | Imports
"""The role of a process to start, and the modules to import before; or the number of a process to end; or modules to
import early, which has no answer."""
Request: TypeAlias = tuple[int, Order]
"""The number of the request, and the order."""
Answer: TypeAlias = tuple[int, int | OSError | list[str] | tuple[int | None, int]]
"""The number of the request; the process that was started, or why none was, or how one has ended; or a list if another
server must start it, because this one has imported packages that start threads, or modules that have changed since."""

TICK_MILLISECONDS = 2
"""The server looks at the processes that it ends at this interval."""


def main(fd: int) -> None:
    """Serve the pools of the process at the other end of `fd`, until that is closed."""
    leave_signals_to_owner()
    # If the program ignores SIGCHLD, this process has inherited that, and could not learn how a child has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    importable.begin_worker(0)  # a module whose top level starts workers must not do so here
    _freeze()
    with socket.socket(fileno=fd) as root:
        _Server(root).run()
    flush()
    os._exit(0)  # nothing is left to do, and an interpreter takes long to end


class _Connection:
    """The connection of a pool, and its processes that have not been waited for.

    Those that end have the number of the request. They are killed at the deadline, once the pool is gone.
    """

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.pids: set[int] = set()
        self.ending: dict[int, int] = {}
        self.deadline: float | None = None

    def leave(self) -> None:
        """The pool is gone. Its processes know that, and have some time to end by themselves."""
        self.deadline = time.monotonic() + GRACE_SECONDS

    def end(self, number: int, pid: int) -> None:
        """Kill a process; the answer comes when it has ended."""
        if pid in self.pids:
            os.kill(pid, signal.SIGKILL)  # has no effect on a child that has ended already
            self.ending[pid] = number
        else:
            self.answer((number, (None, 0)))

    def wait(self) -> None:
        """Answer for the processes that have ended, and kill those whose time is over."""
        for pid in list(self.ending if self.deadline is None else self.pids):
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                self.pids.remove(pid)
                if (number := self.ending.pop(pid, None)) is not None:
                    self.answer((number, (os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)))
            elif self.deadline is not None and time.monotonic() > self.deadline:
                os.kill(pid, signal.SIGKILL)

    def answer(self, answer: Answer) -> None:
        with contextlib.suppress(ConnectionError):
            self.control.send(pickle.dumps(answer))


class _Server:
    """All connections of the fork server. It waits for no single process, which would hold up the other pools."""

    def __init__(self, root: socket.socket) -> None:
        self._root = root
        self._connections: dict[int, _Connection] = {}
        self._modules = _Modules()
        self._ends = False

    def run(self) -> None:
        """Serve until the root is closed and all processes have ended."""
        while self._connections or not self._ends:
            for fd in self._ready():
                if fd == self._root.fileno():
                    self._receive_connection()
                else:
                    self._receive_request(self._connections[fd])
            for fd, connection in list(self._connections.items()):
                connection.wait()
                if connection.deadline is not None and not connection.pids:
                    connection.control.close()
                    del self._connections[fd]

    def _ready(self) -> list[int]:
        """Wait for messages; return the descriptors that have some. Return soon if processes have to end."""
        poll = select.poll()
        timeout = None
        if not self._ends:
            poll.register(self._root, select.POLLIN)
        for connection in self._connections.values():
            if connection.deadline is None:
                poll.register(connection.control, select.POLLIN)
            if connection.deadline is not None or connection.ending:
                timeout = TICK_MILLISECONDS
        return [fd for fd, _ in poll.poll(timeout)]

    def _receive_connection(self) -> None:
        data, fds, _, _ = socket.recv_fds(self._root, 1, 1)
        for fd in fds:
            self._connections[fd] = _Connection(socket.socket(fileno=fd))
        if not data:
            self._ends = True
            for connection in self._connections.values():
                connection.leave()

    def _receive_request(self, connection: _Connection) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(connection.control, 1, 16)
        except ConnectionError:  # the other end was closed before it had read an answer
            data, fds = b"", []
        if not data:
            connection.leave()
            return
        request, *fds = fds
        number, order = cast("Request", read(request))
        os.close(request)
        if isinstance(order, int):
            connection.end(number, order)
            return
        if isinstance(order, Imports):
            self._modules.load(order)
            return
        role, imports = order
        try:
            imports = imports._replace(names=imports.names | imports_of(graph_file=fds[SURROUNDINGS + 1]))
            self._modules.load(imports)
            if not connection.pids and (self._modules.threaded or self._modules.differ_from(imports)):
                connection.answer((number, self._modules.threaded))
            else:
                pid = self._fork(role, fds)
                connection.pids.add(pid)
                connection.answer((number, pid))
        except OSError as error:
            connection.answer((number, error))
        for fd in fds:
            os.close(fd)

    def _fork(self, role: Role, fds: Sequence[int]) -> int:
        server = os.getpid()
        with owners_signals_blocked():
            pid = os.fork()
            if not pid:
                leave_signals_to_owner()
        if pid:
            return pid
        try:
            self._root.close()
            for connection in self._connections.values():
                connection.control.close()
            die_with_parent(server)
            run(role, fds)
        finally:  # the copy never returns into the server
            os._exit(1)


class _Modules:
    """What the server has imported for its workers.

    A copy of this process has what the threads of `threaded` packages guard, but not these threads.
    """

    def __init__(self) -> None:
        self.threaded: list[str] = []
        self._loaded: set[str] = set()
        self._versions: dict[str, int | None] = {}  # of the files of the user's modules

    def load(self, imports: Imports) -> None:
        names = [name for name in imports.names if name.partition(".")[0] not in imports.excluded]
        if self._loaded.issuperset(names):
            return
        self._loaded.update(names)
        before = set(sys.modules)
        path, sys.path = sys.path, imports.path
        for name in names:
            threads = _thread_count()
            with contextlib.suppress(BaseException):  # a worker that needs the module raises the error
                importlib.import_module(name)
            if _thread_count() > threads:
                self.threaded.append(name.partition(".")[0])
        sys.path = path
        for name in sys.modules.keys() - before:
            with contextlib.suppress(AttributeError):  # a library may put anything there
                if importable.is_of_user(module := sys.modules[name]):
                    self._versions[str(module.__file__)] = _version(str(module.__file__))
        flush()  # else each copy would write what a module has printed
        _freeze()

    def differ_from(self, imports: Imports) -> bool:
        """Whether the program has another module of one of the names, or a file has changed since."""
        for name, file in imports.names.items():
            module = sys.modules.get(name)
            if file and module is not None and not _is_same_file(str(getattr(module, "__file__", None)), file):
                return True
        return any(_version(file) != version for file, version in self._versions.items())


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def _is_same_file(file: str, other: str) -> bool:
    return file == other or (os.path.exists(file) and os.path.exists(other) and os.path.samefile(file, other))


def _version(file: str) -> int | None:
    """When the file has changed last."""
    return os.stat(file).st_mtime_ns if os.path.exists(file) else None


def _freeze() -> None:
    gc.collect()
    gc.freeze()  # else a worker's garbage collector would write to the shared pages, and so copy them
