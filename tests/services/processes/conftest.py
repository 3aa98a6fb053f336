"""Fixtures for tests of worker processes: list and kill processes, run scripts, check that nothing stays behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from feedpipe.errors import WorkerWarning

from ...servers.process import await_end
from ...support.core import end_dropped, join
from ...support.services import kept_server

HANG_SECONDS = 300.0
"""A process that takes longer hangs. The limit is generous, because a busy machine must not fail a test."""


class Process(NamedTuple):
    """A process. The time of its birth distinguishes it from a later one with the same number."""

    pid: int
    born: int

    @property
    def alive(self) -> bool:
        """Whether it exists and is no zombie."""
        stat = _stat(self.pid)
        return stat is not None and stat.state != "Z" and stat.born == self.born


class Stat(NamedTuple):
    """What the system knows about a process."""

    state: str
    parent: int
    session: int
    born: int


def _stat(pid: int) -> Stat | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Stat(fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def _all(*, zombies: bool) -> Iterator[tuple[Process, Stat]]:
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        stat = _stat(pid)
        if stat is not None and (zombies or stat.state != "Z"):
            yield Process(pid, stat.born), stat


def ended(processes: Iterable[Process]) -> None:
    """Waits until processes have ended."""
    for process in processes:
        if process.alive:
            await_end(process.pid, HANG_SECONDS)


def below(pid: int | None = None, *, zombies: bool = False) -> list[Process]:
    """All descendants of a process, in the order of their birth.

    By default those of this process, without its fork server and without what stood before the test.
    """
    parents: dict[int, list[Process]] = {}
    for process, stat in _all(zombies=zombies):
        parents.setdefault(stat.parent, []).append(process)
    descendants: list[Process] = []
    pids = [os.getpid() if pid is None else pid]
    while pids:
        children = parents.get(pids.pop(), [])
        descendants += children
        pids += [child.pid for child in children]
    if pid is None:
        descendants = [process for process in descendants if process.pid != server_pid() and process not in _standing]
    return sorted(descendants, key=lambda process: (process.born, process.pid))


_standing: set[Process] = set()
"""Processes that were there before the test, such as servers of storage that all tests share."""


def server_pid() -> int:
    """The fork server of this process, which is kept for the next loader; 0 if there is none."""
    server = kept_server()
    return 0 if server is None else server.pid


def workers() -> list[Process]:
    """The workers, if this process has a single loader: the leaves of the tree of processes."""
    descendants = below()
    parents = {stat.parent for process in descendants if (stat := _stat(process.pid))}
    return [process for process in descendants if process.pid not in parents]


def descriptors() -> list[str]:
    """Open descriptors of this process that may belong to a worker: sockets, pipes, shared memory."""
    targets = []
    server = kept_server()
    for name in os.listdir("/proc/self/fd"):
        if server is not None and int(name) == server.fileno():
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith(("socket:", "pipe:", "/memfd:")):
            targets.append(target)
    return sorted(targets)


def mapped() -> int:
    """How many regions of a loader's shared memory this process maps, without what stood before the test."""
    return _regions() - _standing_regions


_standing_regions = 0
"""Regions of arrays that others still hold, such as fixtures of a module."""


def _regions() -> int:
    return Path("/proc/self/maps").read_text().count("/memfd:feedpipe")


@contextmanager
def deaths(*, least: int = 1) -> Iterator[list[str]]:
    """Collects the warnings of workers that die. Any other warning is an error, and so are fewer than `least`."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "lance is not fork-safe")  # if another test has imported it
        warnings.simplefilter("always", WorkerWarning)
        yield messages
    messages += [str(warning.message) for warning in caught]
    assert len(messages) >= least, "no worker has died"


def kill(processes: list[Process]) -> None:
    """Kills processes, and waits until they are dead."""
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
    ended(processes)


def kill_server() -> None:
    """Kills the fork server of this process, if there is one."""
    if pid := server_pid():
        os.kill(pid, signal.SIGKILL)
        await_end(pid, HANG_SECONDS)


def await_dropped() -> None:
    """Waits until what nobody refers to any more has ended, in threads."""
    gc.collect()
    end_dropped()
    for thread in threading.enumerate():
        if thread.name == "feedpipe-end":
            join(thread)
    gc.collect()  # if one of these threads was collecting, the first call has returned at once


class Processes(NamedTuple):
    """The functions above, for tests."""

    ended: Callable[[Iterable[Process]], None] = ended
    below: Callable[..., list[Process]] = below
    server_pid: Callable[[], int] = server_pid
    kill_server: Callable[[], None] = kill_server
    workers: Callable[[], list[Process]] = workers
    kill: Callable[[list[Process]], None] = kill
    await_dropped: Callable[[], None] = await_dropped
    descriptors: Callable[[], list[str]] = descriptors
    mapped: Callable[[], int] = mapped


@pytest.fixture(name="processes")
def _processes() -> Processes:
    return Processes()


@pytest.fixture(name="deaths")
def _deaths():
    return deaths


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fails a test that leaves a process, a zombie, an open descriptor or shared memory behind.

    The fork server stays: it belongs to this process.
    """
    global _standing_regions
    gc.collect()
    _standing.clear()
    _standing.update(below(zombies=True))
    _standing_regions = _regions()
    before = len(descriptors())
    yield
    await_dropped()
    left = below(zombies=True), descriptors(), mapped()
    if left[0] or len(left[1]) > before or left[2] > 0:
        pytest.fail(f"left behind: {left}, and before: {before}")


class Script(NamedTuple):
    """Runs Python programs as a user does."""

    folder: Path

    def start(self, source: str, *options: str, **settings: object) -> subprocess.Popen[str]:
        """Starts `source` as a file, in a session of its own, with its output in pipes."""
        file = self.folder / "script.py"
        file.write_text(textwrap.dedent(source))
        return self.command(str(file), *options, **settings)

    def command(self, *arguments: str, **settings: object) -> subprocess.Popen[str]:
        # Without a buffer, a fork could not write buffered output twice.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        return subprocess.Popen(
            [sys.executable, *arguments],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=environment,
            start_new_session=True,
            **settings,  # type: ignore[call-overload]
        )

    def run(self, source: str, *options: str) -> str:
        """What `source` prints. It must write no errors, and leave no process behind."""
        return self.said(self.start(source, *options))

    def said(self, process: subprocess.Popen[str], text: str | None = None) -> str:
        with process:
            out, err = process.communicate(text, timeout=HANG_SECONDS)
        assert (process.returncode, err) == (0, ""), err
        while left := [one for one, stat in _all(zombies=False) if stat.session == process.pid]:
            ended(left)
        return out


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    return Script(tmp_path)
