"""What a process holds of the system, to see that nothing is left behind."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PATIENCE = 5.0
"""Seconds in which a thread that was told to end has to do so."""


class Process(NamedTuple):
    """A process, as no other will ever be: numbers are used again."""

    pid: int
    started: str


class Footprint(NamedTuple):
    """Threads of this process, how many files it has open, and the processes below it (where there is `/proc`)."""

    threads: frozenset[threading.Thread]
    files: int
    processes: frozenset[Process]

    @staticmethod
    def now() -> Footprint:
        files = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
        return Footprint(frozenset(threading.enumerate()), files, frozenset(_descendants()))

    def beyond(self, before: Footprint, seen: Iterable[Process]) -> list[str]:
        """What there is now that was not there before, or has been seen since."""
        left = [f"thread {thread.name}" for thread in self.threads - before.threads]
        orphans = {process for process in seen if _started(process.pid) == process.started}
        left += [f"process {process.pid}" for process in (self.processes | orphans) - before.processes]
        if self.files > before.files:
            left.append(f"{self.files - before.files} open files")
        return left


@contextmanager
def nothing_left(what: str) -> Generator[set[Process]]:
    """Raises an `AssertionError` if after the block more is there than before.

    The block may add processes that it has seen: these must be gone, whoever their parent is by now.
    """
    before = Footprint.now()
    seen: set[Process] = set()
    yield seen
    left = Footprint.now().beyond(before, seen)
    if left:
        gc.collect()
        for thread in set(threading.enumerate()) - before.threads:
            thread.join(PATIENCE)
        left = Footprint.now().beyond(before, seen)
    assert not left, f"{what} has left behind: {', '.join(left)}"


def _descendants() -> set[Process]:
    """The processes below this one."""
    children: dict[int, list[Process]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _fields(int(folder.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(Process(int(folder.name), fields[19]))
    found: set[Process] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += [process.pid for process in below]
    return found


def _started(pid: int) -> str | None:
    fields = _fields(pid)
    return fields[19] if fields else None


def _fields(pid: int) -> list[str]:
    """What the system says of a process, from its state on; nothing where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
