"""The ways to start a worker process. None imports the user's `__main__`."""

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
from .fork_server import GRACE, INTERRUPTS, Role, die_with_parent, end_all, ended, flush, ignore_interrupts, run


class Death(NamedTuple):
    """How a process ended.

    Attributes:
        code: its exit status; the negative number of the signal that killed it; None where that is not known.
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
    """Starts processes, and ends them.

    `start` makes a process for a role. The descriptors that it hands over stay the caller's; `own` is one that the
    process must not keep open. `close` is called when all know that they are to end, and returns when they have.
    `disown` is called in a copy of this process, made by a fork, whose processes they are not.
    """

    def start(self, role: Role, fds: Sequence[int], own: int) -> int: ...
    def end(self, pid: int) -> Death: ...
    def close(self) -> None: ...
    def disown(self) -> None: ...


class ForkServer:
    """Workers are forked by a process that has no threads and has imported what they need.

    Args:
        threads: of the libraries that calculate, in each worker.
        io_threads: of Arrow's readers, in each worker.
    """

    def __init__(self, threads: int, io_threads: int) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = f"from feedpipe.services.processes.fork_server import main; main({theirs.fileno()})"
            self._server = _interpreter(command, [theirs.fileno()], threads, io_threads)
        self._asked = 0

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        # Imported once, before the fork: what this process has found that its pipes need.
        preload: list[str] = [name for name in ("pyarrow", "pyarrow.fs") if name in sys.modules]
        return cast("int", self._ask((role, preload), fds))

    def end(self, pid: int) -> Death:
        return Death(*cast("tuple[int | None, int]", self._ask(pid, ())))

    def close(self) -> None:
        with self._control:
            self._control.shutdown(socket.SHUT_WR)
            # It closes its end by ending. `Popen.wait` with a timeout would sleep and look, again and again.
            ended = select.poll()
            ended.register(self._control, select.POLLIN)
            if not ended.poll(GRACE * 3000):
                self._server.kill()
        self._server.wait()

    def disown(self) -> None:
        self._control.close()
        self._server.returncode = 0  # no child of this process

    def _ask(self, what: tuple[Role, list[str]] | int, fds: Sequence[int]) -> object:
        self._asked += 1
        try:
            socket.send_fds(self._control, [pickle.dumps((self._asked, what))], fds)
            while answer := self._control.recv(4096):
                number, result = pickle.loads(answer)
                if number == self._asked:  # else it answers a call that an interrupt has ended
                    return result
        except ConnectionError:
            pass
        code = self._server.wait()
        raise WorkerError(f"the process that starts workers has ended by itself, with status {code}")


class Spawn:
    """Each worker is an interpreter of its own."""

    def __init__(self, threads: int, io_threads: int) -> None:
        self._threads = threads, io_threads
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        call = f"run_alone({role!r}, {list(fds)!r}, {_to_die_with()})"
        command = f"from feedpipe.services.processes.fork_server import run_alone; {call}"
        process = _interpreter(command, fds, *self._threads)
        self._processes[process.pid] = process
        return process.pid

    def end(self, pid: int) -> Death:
        process = self._processes.pop(pid)
        code, peak = ended(pid)
        process.returncode = code or 0  # it has been waited for
        return Death(code, peak)

    def close(self) -> None:
        end_all(set(self._processes))
        self.disown()

    def disown(self) -> None:
        while self._processes:
            self._processes.popitem()[1].returncode = 0  # no child of this process


class Fork:
    """Each worker is a copy of this process: at once there, and only safe while this process has no other threads."""

    def __init__(self, threads: int, io_threads: int) -> None:
        self._threads = threads, io_threads
        self._pids: set[int] = set()

    def start(self, role: Role, fds: Sequence[int], own: int) -> int:
        parent = _to_die_with()
        flush()  # what waits to be written would be written by the copy as well
        with _interrupts_held():
            pid = os.fork()
            if not pid:
                try:
                    os.close(own)
                    ignore_interrupts()
                    die_with_parent(parent)
                    _limit_threads(*self._threads)
                    run(role, fds)
                finally:  # nothing gets out into the program that this is a copy of
                    os._exit(1)
            self._pids.add(pid)
        return pid

    def end(self, pid: int) -> Death:
        self._pids.discard(pid)
        return Death(*ended(pid))

    def close(self) -> None:
        end_all(self._pids)

    def disown(self) -> None:
        self._pids.clear()


STARTERS: dict[str, Callable[[int, int], Starter]] = {"forkserver": ForkServer, "spawn": Spawn, "fork": Fork}


def _to_die_with() -> int:
    """This process, for one that it is about to start; 0 outside the main thread, where the system means the thread."""
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0


def _interpreter(command: str, fds: Sequence[int], threads: int, io_threads: int) -> subprocess.Popen[bytes]:
    """A new interpreter that finds what this one finds, and runs `command`."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    path = [
        entry for entry in cast("list[object]", sys.path) if isinstance(entry, str)
    ]  # Python, too, skips the others
    code = f"import sys; sys.path[:] = {path!r}; {command}"
    with _interrupts_held():
        return subprocess.Popen(
            [sys.executable, *flags, "-c", code],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            env=os.environ | _thread_variables(threads, io_threads),
        )


@contextlib.contextmanager
def _interrupts_held() -> Generator[None]:
    """Ctrl-C waits meanwhile, and is held in a process started here until that decides to ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _thread_variables(threads: int, io_threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, str(threads)) | {"ARROW_IO_THREADS": str(io_threads)}


def _limit_threads(threads: int, io_threads: int) -> None:
    """For a copy of this process, in which libraries are loaded already."""
    os.environ.update(_thread_variables(threads, io_threads))
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    if arrow := sys.modules.get("pyarrow"):
        arrow.set_cpu_count(threads)
        arrow.set_io_thread_count(io_threads)
