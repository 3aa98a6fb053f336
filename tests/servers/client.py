"""A process in which tests of HDFS run.

A client of HDFS is a Java machine in its process, and that takes over signals, adds threads that a fork does not copy,
and needs environment variables set before; so it is not the process of all the other tests.
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

LONG = 100.0
"""Seconds that one call may take; the stacks are printed then."""


class Client:
    """A process that calls functions.

    Args:
        environment: what it needs beside that of this process.
        log: what it prints.
        turns: a file that all clients of one server share; a call that is to be alone waits for those of others.
    """

    def __init__(self, environment: Mapping[str, str], log: Path, turns: Path) -> None:
        self._log = log
        self._turns = turns
        self._environment = environment
        self._process: Process | None = None

    def call(
        self, function: Callable[..., Any], module: ModuleType, arguments: Mapping[str, Any], *, alone: bool = False
    ) -> None:
        """Calls a function there; an exception comes back with its traceback as a note.

        Args:
            function: of `module`, sent by value: as pytest has compiled it, to tell more of an assertion that fails.
            module: the test's.
            arguments: by name; they must be picklable.
            alone: whether no other client may call anything meanwhile: it takes DataNodes away.
        """
        if self._process is None:
            self._process = Process("tests.servers.client", self._log, os.environ | self._environment)
        cloudpickle.register_pickle_by_value(module)
        try:
            question = cloudpickle.dumps((function, dict(arguments)))
        finally:
            cloudpickle.unregister_pickle_by_value(module)
        try:
            with locked(self._turns, alone=alone):
                error, told = self._process.ask(question, timeout=LONG + 20)
        except ProgramError:
            self._process.close()  # it has ended itself; the next test gets a new one
            self._process = None
            raise
        if error is not None:
            raised = cloudpickle.loads(error)
            raised.add_note(told)
            raise raised

    def close(self) -> None:
        if self._process is not None:
            self._process.close()


def main(owner: Connection) -> None:
    """Calls what it is sent."""
    warnings.simplefilter("error")
    while True:
        try:
            (question,) = owner.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(LONG, exit=True)  # a call that hangs says where, and ends the process
        answer = _answer(question)
        faulthandler.cancel_dump_traceback_later()
        owner.send(answer)


def _answer(question: bytes) -> tuple[bytes | None, str]:
    try:
        function, arguments = cloudpickle.loads(question)
        function(**arguments)
    except BaseException as error:
        told = traceback.format_exc()
        try:
            packed = cloudpickle.dumps(error)
            cloudpickle.loads(packed)
        except Exception:
            packed = cloudpickle.dumps(AssertionError(f"{type(error).__name__}: {error}"))
        return packed, told
    return None, ""
