"""What the tests of worker processes share: the processes there are, scripts, and that nothing stays behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from feedpipe.errors import WorkerWarning

LONG = 30.0
"""Seconds after which a fact that should come about counts as missing."""


def until(fact: Callable[[], object]) -> None:
    """Waits for a fact; a short nap between two looks is all the timing there is."""
    deadline = time.monotonic() + LONG
    while not fact():
        assert time.monotonic() < deadline, "this should have come about"
        time.sleep(0.005)


class Process(NamedTuple):
    """A process, and when it was born, so that another one with its number is told apart."""

    pid: int
    born: int

    @property
    def alive(self) -> bool:
        """Whether it is there and no zombie."""
        found = _stat(self.pid)
        return found is not None and found[0] != "Z" and found[2] == self.born


def _stat(pid: int) -> tuple[str, int, int] | None:
    """State, parent, and time of birth."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[1]), int(fields[19])


def below(pid: int | None = None, *, zombies: bool = False) -> list[Process]:
    """All descendants of a process, by default of this one, in the order of their birth."""
    parents: dict[int, list[Process]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        found = _stat(int(name))
        if found is not None and (zombies or found[0] != "Z"):
            parents.setdefault(found[1], []).append(Process(int(name), found[2]))
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
    parents = {found[1] for one in everybody if (found := _stat(one.pid))}
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
    until(lambda: not any(one.alive for one in those))


class Processes(NamedTuple):
    """The functions above, for tests to use."""

    until: Callable[[Callable[[], object]], None] = until
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

    def clean() -> bool:
        gc.collect()
        return set(below(zombies=True)) <= before[0] and len(descriptors()) <= before[1] and mapped() <= before[2]

    try:
        until(clean)
    except AssertionError:
        left = set(below(zombies=True)) - before[0], descriptors(), mapped()
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
        until(lambda: not _session(process.pid))
        return out


def _session(number: int) -> list[int]:
    """The processes of a session."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == number and fields[0] != "Z":
            found.append(int(name))
    return found


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    return Script(tmp_path)
