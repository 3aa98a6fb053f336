"""The ways to start a worker process. None of them imports the user's `__main__`."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from ...errors import WorkerError
from .child import Death, Role, die_with_parent, flush, ignore_interrupts, kill_and_wait, run, wait_or_kill
from .connection import hang_up
from .fork_server import Answer, Order
from .interpreter import interrupts_blocked, start_interpreter, thread_variables
from .server_handle import ServerHandle, shared_server


class Starter(Protocol):
    """Starts processes, and ends them."""

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        """Starts a process, which gets copies of `fds` and must not keep `own` open."""
        ...

    def end(self, pid: int) -> Death: ...

    def close(self) -> None:
        """Waits until all processes have ended. They have been told to end."""
        ...

    def disown(self) -> None:
        """Forgets all processes, in a forked copy of this process that is not their parent."""
        ...


_PRELOADED = {
    "pyarrow": ["pyarrow"],
    "pyarrow.fs": ["pyarrow.fs"],
    "feedpipe.compat.fetchers": ["feedpipe.compat.fetchers"],  # imports torch
    "adbc_driver_manager": ["adbc_driver_manager", "pyarrow"],  # `read_sql` imports pyarrow only with the first rows
}
"""What workers need if this process has imported a module for its pipes."""


class ForkServer:
    """Has workers forked by the server of this process, which has no threads and has imported what they need.

    Args:
        threads: threads of numeric libraries in each worker.
        io_threads: threads of Arrow's readers in each worker.
    """

    def __init__(self, threads: int, io_threads: int) -> None:
        self._server: ServerHandle | None = shared_server(threads, io_threads)
        self._control = self._server.connect()
        self._requests = 0
        with contextlib.suppress(ConnectionError):  # `start` says why the server has ended
            self._control.send(pickle.dumps((0, _needed_modules())))

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        return cast("int", self._send((role, _needed_modules()), fds))

    def end(self, pid: int) -> Death:
        return Death(*cast("tuple[int | None, int]", self._send(pid, ())))

    def close(self) -> None:
        hang_up(self._control)  # the server kills processes that do not end
        self._server = None

    def disown(self) -> None:
        self._control.close()
        self._server = None

    def _send(self, order: Order, fds: Sequence[int]) -> object:
        """Sends an order, and waits for the answer."""
        assert self._server is not None, "a pool that was closed starts no process"
        self._requests += 1
        try:
            socket.send_fds(self._control, [pickle.dumps((self._requests, order))], fds)
            while message := self._control.recv(4096):
                number, answer = cast("Answer", pickle.loads(message))
                if number == self._requests:  # else it answers a request that an interrupt has cut short
                    if isinstance(answer, OSError):
                        raise WorkerError(f"no process can be started for a worker: {answer}") from answer
                    return answer
        except ConnectionError:
            pass
        raise self._server.error()


class Spawn:
    """Starts an interpreter for each worker."""

    def __init__(self, threads: int, io_threads: int) -> None:
        self._threads = threads, io_threads
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        call = f"run_alone({role!r}, {list(fds)!r}, {_parent_to_die_with()})"
        command = f"from feedpipe.services.processes.child import run_alone; {call}"
        process = start_interpreter(command, fds, *self._threads)
        self._processes[process.pid] = process
        return process.pid

    def end(self, pid: int) -> Death:
        process = self._processes.pop(pid)
        code, peak = kill_and_wait(pid)
        process.returncode = code or 0  # `Popen` must not wait for it again
        return Death(code, peak)

    def close(self) -> None:
        wait_or_kill(set(self._processes))
        self.disown()

    def disown(self) -> None:
        while self._processes:
            self._processes.popitem()[1].returncode = 0  # not a child of this process


class Fork:
    """Copies this process for each worker: fast, and safe only while this process has no other threads."""

    def __init__(self, threads: int, io_threads: int) -> None:
        self._threads = threads, io_threads
        self._pids: set[int] = set()

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        parent = _parent_to_die_with()
        flush()  # else the copy would write buffered output as well
        with interrupts_blocked():
            pid = os.fork()
            if not pid:
                try:
                    os.close(own)
                    ignore_interrupts()
                    die_with_parent(parent)
                    _limit_threads(*self._threads)
                    run(role, fds)
                finally:  # the copy never returns into the program
                    os._exit(1)
            self._pids.add(pid)
        return pid

    def end(self, pid: int) -> Death:
        self._pids.discard(pid)
        return Death(*kill_and_wait(pid))

    def close(self) -> None:
        wait_or_kill(self._pids)

    def disown(self) -> None:
        self._pids.clear()


STARTERS: dict[str, Callable[[int, int], Starter]] = {"forkserver": ForkServer, "spawn": Spawn, "fork": Fork}


def _needed_modules() -> list[str]:
    """What a server imports once for all its workers."""
    return [name for loaded, names in _PRELOADED.items() if loaded in sys.modules for name in names]


def _parent_to_die_with() -> int:
    """The parent for `die_with_parent`; 0 outside the main thread, whose end the system would take for the parent's."""
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0


def _limit_threads(threads: int, io_threads: int) -> None:
    """Limits the threads of a copy of this process, which has loaded its libraries already."""
    os.environ.update(thread_variables(threads, io_threads))
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    if arrow := sys.modules.get("pyarrow"):
        arrow.set_cpu_count(threads)
        arrow.set_io_thread_count(io_threads)
