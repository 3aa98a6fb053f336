"""`start_interpreter`: starts an interpreter of Python that works as this one does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from typing import cast

from .child import INTERRUPTS


def start_interpreter(command: str, fds: Sequence[int], threads: int, io_threads: int) -> subprocess.Popen[bytes]:
    """Runs `command` in a new interpreter that has the `sys.path` of this one, and copies of `fds`."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = f"import sys; sys.path[:] = {import_path()!r}; {command}"
    with interrupts_blocked():
        return subprocess.Popen(
            [sys.executable, *flags, "-c", code],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            env=os.environ | thread_variables(threads, io_threads),
        )


def import_path() -> list[str]:
    """`sys.path`, without the entries that Python skips, too."""
    return [entry for entry in cast("list[object]", sys.path) if isinstance(entry, str)]


@contextlib.contextmanager
def interrupts_blocked() -> Generator[None]:
    """Delays Ctrl-C meanwhile; a process that starts here inherits that until it ignores Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def thread_variables(threads: int, io_threads: int) -> dict[str, str]:
    """The environment that limits the threads of numeric libraries, and of Arrow's readers."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, str(threads)) | {"ARROW_IO_THREADS": str(io_threads)}
