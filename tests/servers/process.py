"""Processes beside the tests: nobody's children, and gone when their owner is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

TESTS = str(Path(__file__).parents[1])
LONG = 120.0
"""Seconds after which an answer counts as missing."""

# The fork makes it nobody's child: tests of workers count the children of the process they run in. `tests` is named
# outright, lest some installed package of that name be found.
_START = """\
import os, sys, types
os.fork() and os._exit(0)
sys.path[:] = {path!r}
sys.modules["tests"] = types.ModuleType("tests")
sys.modules["tests"].__path__ = [{tests!r}]
from tests.servers.process import run
run({module!r}, int(sys.argv[1]))
"""


class Line:
    """A connection with a program; while it is open, the program runs."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))

    def ask(self, *question: object, timeout: float = LONG) -> Any:
        """The answer to a question.

        Raises:
            ProgramError: the program has died, or says nothing for `timeout` seconds.
        """
        self._connection.send(question)
        return self.told(timeout)

    def told(self, timeout: float = LONG) -> Any:
        """What the program says next."""
        try:
            if not self._connection.poll(timeout):
                raise ProgramError(f"no answer within {timeout:.0f} s")
            return self._connection.recv()
        except (EOFError, ConnectionError):
            raise ProgramError("a program has ended by itself") from None

    def close(self) -> None:
        """Says that there is no more to come, and waits until the program has closed its end."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(LONG)
            while self._socket.recv(2**16):
                pass
        except TimeoutError:
            raise ProgramError("a program does not end") from None
        except OSError:  # it had ended before
            pass
        finally:
            self._socket.close()
            self._connection.close()


class ProgramError(RuntimeError):
    """A program does not answer."""


class Process(Line):
    """A module of this folder, running as a program.

    Its `main` is called with the other end of the connection, and ends when that says that there is no more to come:
    when `close` was called, or this process has died in whatever way. Ctrl-C does not reach it.

    Args:
        module: such as "tests.servers.s3".
        log: a file for what it prints.
        environment: its environment variables.
    """

    def __init__(self, module: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        ours, theirs = socket.socketpair()
        path = [entry for entry in sys.path if entry]
        code = _START.format(path=path, tests=TESTS, module=module)
        with theirs, log.open("ab") as output:
            subprocess.run(
                [sys.executable, "-c", code, str(theirs.fileno())],
                check=True,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        super().__init__(ours)
        self.pid = self.told()

    def told(self, timeout: float = LONG) -> Any:
        try:
            return super().told(timeout)
        except ProgramError as error:
            printed = self._log.read_text(errors="replace")[-5000:]
            raise ProgramError(f"{error}; it printed:\n{printed}") from None


def await_end(pid: int, seconds: float = LONG) -> None:
    """Waits until a process has ended, whosever child it is."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:  # it is gone
        return
    try:
        if not wait([end], seconds):
            raise TimeoutError(f"process {pid} has not ended within {seconds:.0f} s")
    finally:
        os.close(end)


def run(module: str, descriptor: int) -> None:
    """In the program: calls `main` of a module with the connection to the owner."""
    os.set_inheritable(descriptor, False)
    owner = Connection(descriptor)
    owner.send(os.getpid())
    try:
        import_module(module).main(owner)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # closes the connection: then all else has ended
