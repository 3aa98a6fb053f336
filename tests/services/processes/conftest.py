"""What the tests of worker processes share: the processes there are, scripts, and that nothing stays behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from feedpipe.errors import WorkerWarning

from ...servers.process import await_end

LONG = 30.0
"""Seconds in which a process ends that is to end."""


class Process(NamedTuple):
    """A process, and when it was born, so that another one with its number is told apart."""

    pid: int
    born: int

    @property
    def alive(self) -> bool:
        """Whether it is there and no zombie."""
        found = _stat(self.pid)
        return found is not None and found.state != "Z" and found.born == self.born


class Stat(NamedTuple):
    """What the system says of a process."""

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
        found = _stat(pid)
        if found is not None and (zombies or found.state != "Z"):
            yield Process(pid, found.born), found


def ended(those: Iterable[Process]) -> None:
    """Waits until processes have ended."""
    for one in those:
        if one.alive:
            await_end(one.pid, LONG)


def below(pid: int | None = None, *, zombies: bool = False) -> list[Process]:
    """All descendants of a process, by default of this one, in the order of their birth."""
    parents: dict[int, list[Process]] = {}
    for process, found in _all(zombies=zombies):
        parents.setdefault(found.parent, []).append(process)
    made, new = [], [os.getpid() if pid is None else pid]
    while new:
        new = [child.pid for one in new for child in made_of(parents, one, made)]
    return sorted(made, key=lambda process: (process.born, process.pid))


def made_of(parents: dict[int, list[Process]], pid: int, made: list[Process]) -> list[Process]:
    made += parents.get(pid, [])
    return parents.get(pid, [])


def workers() -> list[Process]:
    """The workers of the one loader that this process has: the ends of the tree."""
    everybody = below()
    parents = {found.parent for one in everybody if (found := _stat(one.pid))}
    return [one for one in everybody if one.pid not in parents]


def descriptors() -> list[str]:
    """What this process has open that could be a worker's: sockets, pipes, shared memory."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the listing's own
            continue
        if target.startswith(("socket:", "pipe:", "/memfd:")):
            found.append(target)
    return sorted(found)


def mapped() -> int:
    """How many regions of a loader's shared memory this process maps."""
    return Path("/proc/self/maps").read_text().count("/memfd:feedpipe")


@contextmanager
def deaths(*, least: int = 1) -> Iterator[list[str]]:
    """Takes the warnings of workers that die; any other is an error, and so are fewer than `least`."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", WorkerWarning)
        yield said
    said += [str(one.message) for one in caught]
    assert len(said) >= least, "no worker has died"


def kill(those: list[Process]) -> None:
    """Kills processes, and waits until they are dead: the system takes its time."""
    for one in those:
        os.kill(one.pid, signal.SIGKILL)
    ended(those)


class Processes(NamedTuple):
    """The functions above, for tests to use."""

    ended: Callable[[Iterable[Process]], None] = ended
    below: Callable[..., list[Process]] = below
    workers: Callable[[], list[Process]] = workers
    kill: Callable[[list[Process]], None] = kill
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
    """Fails a test that leaves a process, a zombie, an open descriptor, or shared memory."""
    gc.collect()
    before = set(below(zombies=True)), len(descriptors()), mapped()
    yield
    gc.collect()
    left = set(below(zombies=True)) - before[0], descriptors(), mapped()
    if left[0] or len(left[1]) > before[1] or left[2] > before[2]:
        pytest.fail(f"left behind: {left}, and before: {before}")


class Script(NamedTuple):
    """Runs Python programs, as a user does."""

    folder: Path

    def start(self, source: str, *options: str, **settings: object) -> subprocess.Popen[str]:
        """Starts `source` as a file, in a session of its own; its output can be read."""
        file = self.folder / "script.py"
        file.write_text(textwrap.dedent(source))
        return self.command(str(file), *options, **settings)

    def command(self, *arguments: str, **settings: object) -> subprocess.Popen[str]:
        # Unbuffered output would hide what is written twice.
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
        """What `source` prints; it must say nothing else, and leave no process."""
        return self.said(self.start(source, *options))

    def said(self, process: subprocess.Popen[str], text: str | None = None) -> str:
        with process:
            out, err = process.communicate(text, timeout=60)
        assert (process.returncode, err) == (0, ""), err
        while left := [one for one, found in _all(zombies=False) if found.session == process.pid]:
            ended(left)
        return out


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    return Script(tmp_path)
