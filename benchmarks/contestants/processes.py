"""The processes below this one, and their CPU time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def below(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(FileNotFoundError):  # it has ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                children += map(int, (task / "children").read_text().split())
    return [*children, *(each for child in children for each in below(child))]


def cpu_seconds() -> float:
    """CPU time of this process and of those below it, also of those that have ended."""
    ticks = 0
    for pid in [os.getpid(), *below(os.getpid())]:
        with suppress(FileNotFoundError, ProcessLookupError):  # ended since, so its parent has its time
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # user and system, own and of children that were waited for
    return ticks / os.sysconf("SC_CLK_TCK")
