"""The flight recorder of a thread, beside its spans: its slowest rows and files, and samples of memory and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

SLOWEST = 10
"""The rows that a thread keeps, and the files."""
SAMPLE_NS = 250_000_000
"""The least time between two samples of a process."""
SAMPLES = 400
"""The samples that a thread keeps; of more, those that are farthest apart."""

Kind: TypeAlias = Literal["row", "file"]


class SlowWork(NamedTuple):
    """A row or a file that took long.

    Attributes:
        kind: "row" or "file".
        of: the name of the operator that made it, or read it.
        where: the file and the row, or what else is known of its place.
        since: when it began, by the clock of its thread.
        ns: its time.
        rows: those of the file that were read; of a row, 1.
    """

    kind: Kind
    of: str
    where: str
    since: int
    ns: int
    rows: int


def slowest(works: Iterable[SlowWork]) -> list[SlowWork]:
    """Of each kind, those that took longest, in that order; the same row of several epochs is there once."""
    kept: dict[tuple[Kind, str, str], SlowWork] = {}
    for work in sorted(works, key=lambda work: -work.ns):
        kept.setdefault((work.kind, work.of, work.where), work)
    by_kind = [[work for work in kept.values() if work.kind == kind] for kind in ("row", "file")]
    return [work for works in by_kind for work in works[:SLOWEST]]


class Slowest:
    """The slowest rows and files of a thread."""

    __slots__ = ("_least", "works")

    def __init__(self) -> None:
        self.works: list[SlowWork] = []
        self._least: dict[Kind, int] = {"row": 0, "file": 0}

    def add(self, kind: Kind, of: str, since: int, ns: int, rows: int, where: Callable[[], str]) -> None:
        """Keep a row or a file if it is one of the slowest. Only then `where` is called, which returns "" for none."""
        if ns <= self._least[kind]:
            return
        if not (place := where()):
            return
        self.works = slowest([*self.works, SlowWork(kind, of, place, since, ns, rows)])
        kept = [work.ns for work in self.works if work.kind == kind]
        self._least[kind] = kept[-1] if len(kept) == SLOWEST else 0


class Fill(NamedTuple):
    """What a thread has ready, and the memory of its process.

    Attributes:
        at: the time, by the clock of the thread.
        ready: the elements, or blocks, that its consumer has not taken yet; -1 if it has no queue.
        resident: the bytes of memory of its process.
        shared: those of them that other processes may use too, such as the elements of workers.
    """

    at: int
    ready: int
    resident: int
    shared: int


def memory() -> tuple[int, int]:
    """The bytes of memory of this process, and those of them that are shared; zeros if the system does not tell."""
    try:
        with open("/proc/self/status", "rb") as file:
            lines = dict(line.split(b":", 1) for line in file)
        return int(lines[b"VmRSS"].split()[0]) * 1024, int(lines[b"RssShmem"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return 0, 0


def thinned(samples: Sequence[Fill]) -> list[Fill]:
    """At most `SAMPLES` of the samples, about equally far apart."""
    if len(samples) <= SAMPLES:
        return list(samples)
    step = 2 * (samples[-1].at - samples[0].at) // SAMPLES
    kept = [samples[0]]
    for sample in samples[1:-1]:
        if sample.at - kept[-1].at >= step:
            kept.append(sample)
    return [*kept, samples[-1]]
