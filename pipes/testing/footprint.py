"""`Footprint`: the threads, files and child processes of a process, to check that nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..services.processes.server_handle import kept_server

MAX_WAIT_SECONDS = 60.0
"""A thread that was told to end must end within this time."""


class Process(NamedTuple):
    """A process, identified also by its start, because the system uses numbers again."""

    pid: int
    started: str


class Footprint(NamedTuple):
    """The threads of this process, how many files it has open, and its descendants (if there is `/proc`).

    The fork server belongs to the process and not to a loader. So it does not count, nor does the connection to it.
    Sockets do not count if Ray is there, which closes those to an actor some time after its end.
    """

    threads: frozenset[threading.Thread]
    files: int
    processes: frozenset[Process]

    @staticmethod
    def now() -> Footprint:
        server = kept_server()
        files = _open_files()
        processes = frozenset(process for process in _descendants() if server is None or process.pid != server.pid)
        return Footprint(frozenset(threading.enumerate()), files - (server is not None), processes)

    def beyond(self, before: Footprint, seen: Iterable[Process]) -> list[str]:
        """What is there now and was not `before`; processes that were `seen` meanwhile count without a parent, too."""
        left = [f"thread {thread.name}" for thread in self.threads - before.threads]
        orphans = {process for process in seen if _started(process.pid) == process.started}
        left += [f"process {process.pid}" for process in (self.processes | orphans) - before.processes]
        if self.files > before.files:
            left.append(f"{self.files - before.files} open files")
        return left


@contextmanager
def nothing_left(what: str) -> Generator[set[Process]]:
    """Raises an `AssertionError` if more is there after the block than before.

    The block may add processes that it has seen. They must be gone, even if they have lost their parent.
    """
    before = Footprint.now()
    seen: set[Process] = set()
    yield seen
    left = Footprint.now().beyond(before, seen)
    if left:
        gc.collect()
        for thread in set(threading.enumerate()) - before.threads:
            thread.join(MAX_WAIT_SECONDS)
        left = Footprint.now().beyond(before, seen)
    assert not left, f"{what} has left behind: {', '.join(left)}"


def _open_files() -> int:
    if not os.path.isdir("/dev/fd"):
        return 0
    if "ray" not in sys.modules:
        return len(os.listdir("/dev/fd"))
    targets: list[str] = []
    for fd in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # a thread has closed it meanwhile
            targets.append(os.readlink(f"/dev/fd/{fd}"))
    return sum(not target.startswith("socket:") for target in targets)


def _descendants() -> set[Process]:
    """All descendants of this process."""
    children: dict[int, list[Process]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _fields(int(folder.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(Process(int(folder.name), fields[19]))
    descendants: set[Process] = set()
    parents = [os.getpid()]
    while parents:
        processes = children.get(parents.pop(), [])
        descendants.update(processes)
        parents += [process.pid for process in processes]
    return descendants


def _started(pid: int) -> str | None:
    fields = _fields(pid)
    return fields[19] if fields else None


def _fields(pid: int) -> list[str]:
    """The fields of `/proc/<pid>/stat` from the state on; none if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
