"""A process for the tests of HDFS.

An HDFS client starts a Java virtual machine in its process. The machine takes over signals, adds threads that a fork
does not copy, and needs environment variables before it starts. So the other tests do not run in that process.
"""

from __future__ import annotations

import faulthandler
import os
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from .hadoop import locked
from .process import Process, ProgramError

CALL_SECONDS = 100.0
"""Seconds that one call may take; after that, the process prints its stacks and ends."""


class Client:
    """A process that calls functions.

    Args:
        environment: variables that are added to those of this process.
        log: the file for its output.
        lock: a file that all clients of one server share; a call that must be alone waits for the calls of others.
    """

    def __init__(self, environment: Mapping[str, str], log: Path, lock: Path) -> None:
        self._log = log
        self._lock = lock
        self._environment = environment
        self._process: Process | None = None

    def call(
        self, function: Callable[..., Any], module: ModuleType, arguments: Mapping[str, Any], *, alone: bool = False
    ) -> None:
        """Calls a function in the process; an exception comes back with its traceback as a note.

        Args:
            function: of `module`. It is sent by value, because pytest has compiled it for better assertion messages.
            module: of the test.
            arguments: by name; they must be picklable.
            alone: no other client may call anything at the same time, because the function stops DataNodes.
        """
        if self._process is None:
            self._process = Process("tests.servers.client", self._log, os.environ | self._environment)
        cloudpickle.register_pickle_by_value(module)
        try:
            question = cloudpickle.dumps((function, dict(arguments)))
        finally:
            cloudpickle.unregister_pickle_by_value(module)
        try:
            with locked(self._lock, alone=alone):
                error, traceback_text = self._process.ask(question, timeout=CALL_SECONDS + 20)
        except ProgramError:
            self._process.close()  # it has ended; the next test gets a new process
            self._process = None
            raise
        if error is not None:
            raised = cloudpickle.loads(error)
            raised.add_note(traceback_text)
            raise raised

    def close(self) -> None:
        if self._process is not None:
            self._process.close()


def main(owner: Connection) -> None:
    """Calls the functions that the owner sends."""
    warnings.simplefilter("error")
    while True:
        try:
            (question,) = owner.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(CALL_SECONDS, exit=True)  # if a call hangs, prints where and ends the process
        answer = _answer(question)
        faulthandler.cancel_dump_traceback_later()
        owner.send(answer)


def _answer(question: bytes) -> tuple[bytes | None, str]:
    try:
        function, arguments = cloudpickle.loads(question)
        function(**arguments)
    except BaseException as error:
        traceback_text = traceback.format_exc()
        try:
            packed = cloudpickle.dumps(error)
            cloudpickle.loads(packed)
        except Exception:
            packed = cloudpickle.dumps(AssertionError(f"{type(error).__name__}: {error}"))
        return packed, traceback_text
    return None, ""
