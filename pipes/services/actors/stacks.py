"""The stacks of a process that gives nothing: Python writes them on a signal, also while other code is running."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time

from ..transport.shared_memory import create_shared_file

_WRITE_SECONDS = 2.0
_CHECK_SECONDS = 0.05


def write_stacks_on_signal() -> int:
    """Has this process write its stacks to a file when it gets a signal; returns the descriptor of the file."""
    fd = create_shared_file()
    faulthandler.register(signal.SIGUSR1, fd)
    return fd


def stacks_of(process: int, fd: int) -> str:
    """The stacks of another process of this machine; empty if they cannot be had.

    Args:
        process: its number.
        fd: what `write_stacks_on_signal` has returned there.
    """
    text = b""
    with contextlib.suppress(OSError):  # the process has ended, or there is no `/proc`
        os.kill(process, signal.SIGUSR1)
        deadline = time.monotonic() + _WRITE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(_CHECK_SECONDS)
            with open(f"/proc/{process}/fd/{fd}", "rb") as file:
                before, text = text, file.read()
            if text and text == before:
                break
    return text.decode(errors="replace").rstrip()
