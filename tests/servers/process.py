"""Processes beside the tests: they are no children of the tests, and end with their owner."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

TESTS = str(Path(__file__).parents[1])
MAX_SECONDS = 120.0
"""Seconds after which an answer counts as missing."""

# The fork detaches the process from the tests: tests of workers count the children of their process. The code sets the
# module `tests` itself, because an installed package may have that name.
_START = """\
import os, sys, types
os.fork() and os._exit(0)
sys.path[:] = {path!r}
sys.modules["tests"] = types.ModuleType("tests")
sys.modules["tests"].__path__ = [{tests!r}]
from tests.servers.process import run
run({module!r}, int(sys.argv[1]))
"""


class ProgramConnection:
    """A connection to a program, which runs as long as the connection is open."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))

    def ask(self, *question: object, timeout: float = MAX_SECONDS) -> Any:
        """Sends a question, and returns the answer.

        Raises:
            ProgramError: the program has ended, or does not answer for `timeout` seconds.
        """
        self._connection.send(question)
        return self.receive(timeout)

    def receive(self, timeout: float = MAX_SECONDS) -> Any:
        """Returns the next message of the program."""
        try:
            if not self._connection.poll(timeout):
                raise ProgramError(f"no answer within {timeout:.0f} s")
            return self._connection.recv()
        except (EOFError, ConnectionError):
            raise ProgramError("a program has ended by itself") from None

    def close(self) -> None:
        """Tells the program to end, and waits until it has closed its end of the connection."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(MAX_SECONDS)
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


class Process(ProgramConnection):
    """A module of this folder that runs as a program.

    The program calls the module's `main` with the other end of the connection. `main` returns when the connection ends:
    after `close`, or when this process has ended, for whatever reason. Ctrl-C does not reach the program.

    Args:
        module: such as "tests.servers.s3".
        log: the file for its output.
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
        self.pid = self.receive()

    def receive(self, timeout: float = MAX_SECONDS) -> Any:
        try:
            return super().receive(timeout)
        except ProgramError as error:
            printed = self._log.read_text(errors="replace")[-5000:]
            raise ProgramError(f"{error}; it printed:\n{printed}") from None


def await_end(pid: int, seconds: float = MAX_SECONDS) -> None:
    """Waits until a process has ended, which need not be a child."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:  # it is gone
        return
    try:
        if not wait([end], seconds):
            raise TimeoutError(f"process {pid} has not ended within {seconds:.0f} s")
    finally:
        os.close(end)


def answer_questions(owner: Connection, server: object) -> None:
    """Runs in the program: calls the method that each question names, until the connection ends."""
    with suppress(EOFError):
        while True:
            command, *arguments = owner.recv()
            owner.send(getattr(server, command)(*arguments))


def run(module: str, descriptor: int) -> None:
    """Runs in the program: calls `main` of a module with the connection to the owner."""
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
        os._exit(0)  # closes the connection last, when everything else has ended
