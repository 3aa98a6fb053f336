"""The ways to start a worker process. None of them imports the user's `__main__`."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, cast

from ...errors import WorkerError
from .fork_server import (
    GRACE_SECONDS,
    INTERRUPTS,
    Role,
    die_with_parent,
    flush,
    ignore_interrupts,
    kill_and_wait,
    run,
    wait_or_kill,
)


class Death(NamedTuple):
    """How a process ended.

    Attributes:
        code: its exit status, or the negative number of the signal that killed it; None if it is not known.
        peak: the most bytes of memory that it had in use.
    """

    code: int | None
    peak: int

    def __str__(self) -> str:
        if self.code is None:
            return "has ended"
        how = f"exited with status {self.code}"
        if self.code < 0:
            how = f"was killed by {signal.Signals(-self.code).name}"
            if self.code == -signal.SIGKILL:
                how += " (by the system, if it was out of memory)"
        return f"{how} and had used up to {self.peak / 2**20:.0f} MiB of memory"


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


class ForkServer:
    """Has workers forked by a process that has no threads and has imported what they need.

    Args:
        threads: threads of numeric libraries in each worker.
        io_threads: threads of Arrow's readers in each worker.
    """

    def __init__(self, threads: int, io_threads: int) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = f"from feedpipe.services.processes.fork_server import main; main({theirs.fileno()})"
            self._server = _interpreter(command, [theirs.fileno()], threads, io_threads)
        self._requests = 0

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        # The server imports once what this process has imported for its pipes.
        preload: list[str] = [name for name in ("pyarrow", "pyarrow.fs") if name in sys.modules]
        return cast("int", self._send((role, preload), fds))

    def end(self, pid: int) -> Death:
        return Death(*cast("tuple[int | None, int]", self._send(pid, ())))

    def close(self) -> None:
        with self._control:
            self._control.shutdown(socket.SHUT_WR)
            # The server closes its end when it ends. `Popen.wait` with a timeout would check at intervals.
            end = select.poll()
            end.register(self._control, select.POLLIN)
            if not end.poll(GRACE_SECONDS * 3000):
                self._server.kill()
        self._server.wait()

    def disown(self) -> None:
        self._control.close()
        self._server.returncode = 0  # not a child of this process

    def _send(self, request: tuple[Role, list[str]] | int, fds: Sequence[int]) -> object:
        """Sends a request, and waits for its answer."""
        self._requests += 1
        try:
            socket.send_fds(self._control, [pickle.dumps((self._requests, request))], fds)
            while answer := self._control.recv(4096):
                number, result = pickle.loads(answer)
                if number == self._requests:  # else it answers a request that an interrupt has cut short
                    return result
        except ConnectionError:
            pass
        code = self._server.wait()
        raise WorkerError(f"the process that starts workers has ended by itself, with status {code}")


class Spawn:
    """Starts an interpreter for each worker."""

    def __init__(self, threads: int, io_threads: int) -> None:
        self._threads = threads, io_threads
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        call = f"run_alone({role!r}, {list(fds)!r}, {_parent_to_die_with()})"
        command = f"from feedpipe.services.processes.fork_server import run_alone; {call}"
        process = _interpreter(command, fds, *self._threads)
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
        with _interrupts_blocked():
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


def _parent_to_die_with() -> int:
    """The parent for `die_with_parent`; 0 outside the main thread, whose end the system would take for the parent's."""
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0


def _interpreter(command: str, fds: Sequence[int], threads: int, io_threads: int) -> subprocess.Popen[bytes]:
    """Runs `command` in a new interpreter that has the `sys.path` of this one."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    path = [entry for entry in cast("list[object]", sys.path) if isinstance(entry, str)]  # Python skips the others, too
    code = f"import sys; sys.path[:] = {path!r}; {command}"
    with _interrupts_blocked():
        return subprocess.Popen(
            [sys.executable, *flags, "-c", code],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            env=os.environ | _thread_variables(threads, io_threads),
        )


@contextlib.contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Delays Ctrl-C meanwhile; a process that starts here inherits that until it ignores Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _thread_variables(threads: int, io_threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, str(threads)) | {"ARROW_IO_THREADS": str(io_threads)}


def _limit_threads(threads: int, io_threads: int) -> None:
    """Limits the threads of a copy of this process, which has loaded its libraries already."""
    os.environ.update(_thread_variables(threads, io_threads))
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    if arrow := sys.modules.get("pyarrow"):
        arrow.set_cpu_count(threads)
        arrow.set_io_thread_count(io_threads)
