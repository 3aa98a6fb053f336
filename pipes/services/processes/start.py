"""`ForkServer`: has the workers of a pool forked by the server of this process, which never imports its `__main__`."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, cast

from ...core.ending import Ending
from ...errors import WorkerError
from ..transport import importable
from ..transport.graph_file import early_imports
from .fork_server import (
    GRACE_SECONDS,
    Answer,
    Death,
    Imports,
    Order,
    Role,
    owners_signals_blocked,
)
from .surroundings import Kind, close, import_path, keep, thread_variables, written

if TYPE_CHECKING:
    from .protocol import DispatchRequest


class Started(NamedTuple):
    """A worker that has been started: our end of its connection, its number for `end`, and its place in words."""

    end: socket.socket
    process: int
    place: str


class DispatcherLink(Protocol):
    """The connection of a pool to its dispatcher."""

    process: int

    def fileno(self) -> int: ...
    def begin(self, request: DispatchRequest) -> None: ...
    def close(self) -> None: ...


class Launcher(Protocol):
    """Starts the workers and the dispatcher of a pool wherever they run, and ends them."""

    shares_memory: ClassVar[bool]
    noun: ClassVar[str]

    def workers(
        self, fds: Mapping[int, Sequence[int]], graph_file: int, dispatcher: DispatcherLink | None
    ) -> Iterable[Started]:
        """Start workers, given the number and the descriptors of each."""
        ...

    def dispatcher(self, graph_file: int) -> DispatcherLink: ...
    def end(self, process: int, /) -> Death | str:
        """End a process; return how it had ended, in words."""
        ...

    def close(self) -> None: ...
    def disown(self) -> None: ...


class LocalDispatcher:
    """The connection to a dispatcher of this machine; descriptors of those of workers travel through it."""

    def __init__(self, control: socket.socket, process: int) -> None:
        self.process = process
        self._control = control
        self.fileno, self.close = control.fileno, control.close

    def connect(self) -> socket.socket:
        """A new connection to the process; returns the end for a worker."""
        with open_connection() as (ours, theirs):
            self._send(None, theirs.fileno())
        return ours

    def begin(self, request: DispatchRequest) -> None:
        """Announce the next run."""
        self._send(request)

    def _send(self, request: DispatchRequest | None, *fds: int) -> None:
        with contextlib.suppress(ConnectionError):  # a poll finds a process that has died
            socket.send_fds(self._control, [pickle.dumps(request)], fds)


_PRELOADED = {
    "pyarrow": ["pyarrow"],
    "pyarrow.compute": ["pyarrow.compute"],
    "pyarrow.fs": ["pyarrow.fs"],
    "pandas": ["pandas"],  # pyarrow imports it for many calls of a user's function
    "numpy.random": ["numpy.random"],
    "feedpipe.compat.fetchers": ["feedpipe.compat.fetchers"],  # imports torch
    "adbc_driver_manager": ["adbc_driver_manager", "pyarrow"],  # `read_sql` imports pyarrow only with the first rows
}
"""What workers need if this process has imported a module for its pipes."""


class ForkServer:
    """Has workers forked by the server of this process, which has no threads and has imported what they need.

    It limits the threads of numeric libraries and of Arrow's readers in each worker. Descriptors are the connections of
    a process.
    """

    shares_memory: ClassVar[bool] = True
    noun: ClassVar[str] = "process"

    def __init__(self, threads: int, io_threads: int) -> None:
        self._threads = threads, io_threads
        self._requests = 0
        self._connect()
        with contextlib.suppress(ConnectionError):  # `start` says why the server has ended
            _post(self._control, 0, _needed_imports())

    def _connect(self) -> None:
        self._server: ServerHandle | None = shared_server(*self._threads)
        self._control = self._server.connect()
        self._surroundings = keep(*self._threads)

    def workers(
        self, fds: Mapping[int, Sequence[int]], graph_file: int, dispatcher: DispatcherLink | None
    ) -> Iterable[Started]:
        return (self._worker(graph_file, own, dispatcher) for own in fds.values())  # each has an owner at once

    def _worker(self, graph_file: int, own: Sequence[int], dispatcher: DispatcherLink | None) -> Started:
        with open_connection() as (ours, theirs), contextlib.ExitStack() as ends:
            fds = [theirs.fileno(), graph_file, *own]
            if dispatcher is not None:
                fds.append(ends.enter_context(cast("LocalDispatcher", dispatcher).connect()).fileno())
            process = self.start("worker", fds)
        return Started(ours, process, f"process {process}")

    def dispatcher(self, graph_file: int) -> LocalDispatcher:
        with open_connection(socket.SOCK_SEQPACKET) as (ours, theirs):
            process = self.start("dispatcher", [theirs.fileno(), graph_file])
        return LocalDispatcher(ours, process)

    def start(self, role: Role, fds: Sequence[int]) -> int:
        """Start a process, which gets copies of `fds`."""
        while True:
            answer = self._send((role, _needed_imports()), [*self._surroundings, *fds])
            if not isinstance(answer, list):
                return cast("int", answer)
            assert self._server is not None
            self._server.is_retired = True
            _threaded.update(cast("list[str]", answer))
            self.close()
            self._connect()

    def end(self, pid: int, /) -> Death:
        return Death(*cast("tuple[int | None, int]", self._send(pid, ())))

    def close(self) -> None:
        """Wait until all processes have ended. Their connections are closed."""
        try:
            hang_up(self._control)  # the server kills processes that do not end
        finally:
            self._forget()

    def disown(self) -> None:
        """Forget all processes, in a forked copy of this process that is not their parent."""
        self._forget()
        self._control.close()

    def _forget(self) -> None:
        close(self._surroundings)
        self._surroundings.clear()
        self._server = None

    def _send(self, order: Order, fds: Sequence[int]) -> object:
        """Send an order, and wait for the answer."""
        assert self._server is not None, "a pool that was closed starts no process"
        self._requests += 1
        try:
            _post(self._control, self._requests, order, fds)
            while message := self._control.recv(4096):
                number, answer = cast("Answer", pickle.loads(message))
                if number == self._requests:  # else it answers a request that an interrupt has cut short
                    if isinstance(answer, OSError):
                        raise WorkerError(f"no process can be started for a worker: {answer}") from answer
                    return answer
        except ConnectionError:
            pass
        raise self._server.error()


def begin_server(threads: int, io_threads: int, values: Iterable[object]) -> None:
    """Start the server, and let it import what `values` need, functions and objects that workers will get.

    The program goes on meanwhile, so its first batch waits for neither.
    """
    if importable.depth:
        return  # a module that makes a loader when a worker imports it
    with shared_server(threads, io_threads).connect() as control, contextlib.suppress(ConnectionError):
        needed = _needed_imports()
        _post(control, 0, needed._replace(names=needed.names | early_imports(values)))


def _post(control: socket.socket, number: int, order: Order, fds: Sequence[int] = ()) -> None:
    request = written((number, order))
    try:
        socket.send_fds(control, [b"+"], [request, *fds])
    finally:
        os.close(request)


def _needed_imports() -> Imports:
    """What a server imports once for all its workers."""
    names = [name for loaded, names in _PRELOADED.items() if loaded in sys.modules for name in names]
    path = [os.path.abspath(entry) for entry in import_path()]  # the server's working folder may be another
    return Imports(dict.fromkeys(names, ""), path, sorted(_threaded))


_threaded: set[str] = set()
"""Packages whose import has started threads in a server."""


# The fork server, as its owner sees it.


class ServerHandle:
    """A fork server. It ends when nothing refers to its handle any more, and when this process ends."""

    def __init__(self, kind: Kind, threads: int, io_threads: int) -> None:
        self._kind = kind
        self.is_retired = False  # it starts no more workers
        with open_connection(socket.SOCK_SEQPACKET) as (ours, theirs):
            command = f"from feedpipe.services.processes.fork_server import main; main({theirs.fileno()})"
            self._process = start_interpreter(command, [theirs.fileno()], threads, io_threads)
        self._root = ours
        Ending(self, partial(_end, ours, self._process, os.getpid()))

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._root.fileno()

    def suits(self, kind: Kind) -> bool:
        """Whether the server runs, and can start workers of this kind."""
        return not self.is_retired and self._process.poll() is None and self._kind == kind

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
        """Forget the server, in a forked copy of this process that is not its parent."""
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
    """The fork server of this process; another one if it has ended, or if its kind has changed.

    The server that was used last is kept for the next loader.
    """
    global _kept
    kind = Kind.now(threads, io_threads)
    with _lock:
        for server in _servers:
            if server.suits(kind):
                _kept = server
                return server
        _kept = None  # ends it if no pool uses it, so that no two of them take memory
        _kept = ServerHandle(kind, threads, io_threads)
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


# Interpreters, and connections to processes.


def start_interpreter(command: str, fds: Sequence[int], threads: int, io_threads: int) -> subprocess.Popen[bytes]:
    """Run `command` in a new interpreter that has the `sys.path` of this one, and copies of `fds`."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    path = written(import_path())
    code = f"import pickle, sys; file = open({path}, 'rb'); sys.path[:] = pickle.load(file); file.close(); {command}"
    try:
        with owners_signals_blocked():
            return subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                pass_fds=[*fds, path],
                stdin=subprocess.DEVNULL,
                env=os.environ | thread_variables(threads, io_threads),
            )
    finally:
        os.close(path)


END_SECONDS = 3.0
"""The time that the other end of a connection has to close."""


@contextlib.contextmanager
def open_connection(
    kind: socket.SocketKind = socket.SOCK_STREAM,
) -> Generator[tuple[socket.socket, socket.socket]]:
    """A connection to a new process: our end, which stays open unless an error occurs, and theirs, which is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with theirs:
        try:
            yield ours, theirs
        except BaseException:
            ours.close()
            raise


def hang_up(connection: socket.socket) -> bool:
    """Close a connection, and wait until the other end is closed, too; return whether it was."""
    if connection.fileno() < 0:
        return False  # an interrupt has ended an earlier call
    with connection:
        connection.shutdown(socket.SHUT_WR)
        end = select.poll()
        end.register(connection, select.POLLIN)
        return bool(end.poll(END_SECONDS * 1000))
