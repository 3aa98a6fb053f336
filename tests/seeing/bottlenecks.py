"""Loops that something on purpose holds back: each makes a loader, and says what its report must find.

A case sleeps, so that other load on the machine changes nothing; those that need a free CPU say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from fsspec.implementations.memory import MemoryFileSystem

import feedpipe as fp

from ..support.seeing import Report


class SlowSequence:
    """Rows that take two milliseconds each."""

    def __len__(self) -> int:
        return 1600

    def __getitem__(self, index: int) -> int:
        time.sleep(0.002)
        return index


class SlowStore(MemoryFileSystem):
    """A store that takes 200 ms for each request, as S3 may."""

    protocol = "slowstore"
    cachable = False

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        time.sleep(0.2)
        return super()._open(path, mode, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        time.sleep(0.2)
        return super().cat_file(path, start, end, **options)


def slow_store() -> fsspec.AbstractFileSystem:
    for number in range(160):
        MemoryFileSystem().pipe_file(f"/many/{number:03}.txt", "\n".join(map(str, range(20))).encode())
    return SlowStore()


def napping(row: object) -> object:
    time.sleep(0.002)
    return row


def napping_6(row: object) -> object:
    time.sleep(0.006)
    return row


def napping_1(row: object) -> object:
    time.sleep(0.001)
    return row


def burning(row: object) -> object:
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
    return row


def keep(row: object) -> bool:
    time.sleep(0.002)
    return True


def slow_collate(rows: object) -> object:
    time.sleep(0.04)
    return rows


def slow_in_one_file(row: str) -> str:
    if row.startswith("B"):
        time.sleep(0.008)
    return row


def large(number: int) -> np.ndarray[Any, Any]:
    return np.full(24 * 2**20, number % 250, np.uint8)


def uneven_files(folder: Path) -> str:
    for number, letter in enumerate("AB"):
        (folder / f"part-{number}.txt").write_text("\n".join(f"{letter}{row}" for row in range(400)))
    return f"{folder}/*.txt"


@dataclass(frozen=True)
class Case:
    """What runs, and what its report must say.

    Attributes:
        pipe: makes the pipe, from an empty folder.
        loop: seconds that the loop takes for a step.
        kind: of the bottleneck; None if the data must not be it.
        operator: a part of its code.
        services: the services that it is for: "0" in process, "2" with two workers, "threads" or all.
        quiet: whether it needs free CPUs.
    """

    pipe: Callable[[Path], fp.Pipe[Any]]
    loop: float
    kind: str | None
    operator: str = ""
    services: tuple[str, ...] = ("0", "2", "threads")
    quiet: bool = False


NUMBERS = range(1600)
IN_PROCESS, WORKERS, THREADS = "0", "2", "threads"


def numbers() -> fp.Pipe[Any]:
    return fp.from_sequence(NUMBERS)


def small_files(_: Path) -> fp.Pipe[Any]:
    return fp.read_lines("/many/*.txt", filesystem=slow_store()).batch(20)


def slow_filter(folder: Path) -> fp.Pipe[Any]:
    return fp.read_lines(uneven_files(folder)).shuffle(window=50).filter(keep).batch(20)


def slow_file(folder: Path) -> fp.Pipe[Any]:
    return fp.read_lines(uneven_files(folder)).map(slow_in_one_file).batch(10)


def before_prefetch(_: Path) -> fp.Pipe[Any]:
    return fp.from_iterable(list(NUMBERS)).map(napping).prefetch(40).batch(20)


CASES = {
    "store": Case(small_files, 0.002, "storage", "lines", (IN_PROCESS,)),
    "source": Case(
        lambda _: fp.from_sequence(SlowSequence()).shuffle().map(abs).batch(20), 0.005, "operator", "from_seq"
    ),
    "map that waits": Case(lambda _: numbers().shuffle().map(napping).batch(20), 0.005, "operator", ".map("),
    "map on a CPU": Case(
        lambda _: numbers().shuffle().map(burning).batch(20), 0.005, "operator", ".map(", (IN_PROCESS, WORKERS), True
    ),
    "collate": Case(lambda _: numbers().map(abs).batch(20).collate(slow_collate), 0.005, "operator", ".collate("),
    "filter of a stream": Case(slow_filter, 0.005, "operator", ".filter("),
    "map before prefetch": Case(before_prefetch, 0.005, "operator", ".map(", (IN_PROCESS,)),
    "transport": Case(lambda _: fp.from_sequence(range(150)).map(large), 0.0, "transport", "", (WORKERS,), True),
    "loop": Case(lambda _: numbers().map(abs).batch(20), 0.03, None),
    "loop with a slow map": Case(lambda _: numbers().map(napping_1).batch(20), 0.03, None, "", (WORKERS, THREADS)),
    "GIL": Case(lambda _: numbers().map(burning).batch(20), 0.001, "gil", ".map(", (THREADS,), True),
    "one shard": Case(slow_file, 0.004, "shard", ".map(", (WORKERS, THREADS)),
}

SERVICES: dict[str, Callable[[], Any]] = {
    IN_PROCESS: fp.InProcess,
    WORKERS: lambda: fp.MultiProcess(2),
    THREADS: lambda: fp.Threads(2),
}
RUNS = [(name, service) for name, case in CASES.items() for service in case.services]


def run(pipe: fp.Pipe[Any], service: object, loop: float) -> Report:
    """The report of a loop that takes `loop` seconds for a step: of as many epochs as it takes to know."""
    with fp.Loader(pipe, service, seed=1) as loader:
        while True:
            for _ in loader:
                time.sleep(loop)
            report = loader.report()
            if not report.verdict.startswith("Too short"):
                return report


def problem(name: str, report: Report) -> str | None:
    """What is wrong with a report; None if it finds what holds the loop back."""
    case, found = CASES[name], report.bottleneck
    if case.kind is None:
        return None if found is None and "not the bottleneck" in report.verdict else str(report)
    if found is None or case.operator not in found.operator:
        return str(report)
    # A machine that has no CPU left for a case of CPUs is told so.
    kinds = (case.kind, "cpus") if case.quiet else (case.kind,)
    line = found.where is not None and found.where.file == __file__
    return None if found.kind in kinds and line else str(report)
