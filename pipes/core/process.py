"""The memory and the CPUs of a rank, values made once in each process, and ranks in words."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from ..errors import ArgumentError
from . import system
from .checks import check_bytes

_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")

_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def local_world_size() -> int:
    """The number of ranks of the job on this machine: `LOCAL_WORLD_SIZE`, or 1 without it.

    Raises:
        ArgumentError: it is no whole number.
    """
    text = os.environ.get("LOCAL_WORLD_SIZE", "1")
    if not text.isdecimal():
        raise ArgumentError(f"`LOCAL_WORLD_SIZE` must be a whole number but is: {text!r}; set it, or unset it")
    return max(1, int(text))


def memory_budget() -> int:
    """The memory of the machine, or of the control group of this process, divided by `LOCAL_WORLD_SIZE`."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        try:
            available = min(available, int(path.read_text()))
        except (OSError, ValueError):  # there is no such control group, or it has no limit ("max")
            continue
    return available // local_world_size()


def available_cpus() -> float:
    """The CPUs that a rank may use: those of this process, or of its control group, divided by `LOCAL_WORLD_SIZE`."""
    cpus = float(system.cpu_cores())
    try:
        quota, period = _CPU_LIMIT.read_text().split()
        cpus = min(cpus, int(quota) / int(period))
    except (OSError, ValueError):  # there is no such control group, or it has no limit ("max")
        pass
    return cpus / local_world_size()


def element_memory(memory: int | str | None) -> int:
    """The bytes that the elements of a service may hold: its argument `memory`, or a quarter of the rank's budget."""
    return memory_budget() // 4 if memory is None else check_bytes("memory", memory)


def large_windows(size: int) -> str | None:
    """Advice if the `size` bytes that the windows of a rank hold are over a quarter of its memory; else None."""
    budget = memory_budget()
    if size <= budget // 4:
        return None
    return (
        f"this is more than a quarter of the {bytes_text(budget)} that a rank may use; give a smaller window or fewer "
        "shards, or shuffle before the operator that makes rows large"
    )


def bytes_text(size: float) -> str:
    """`size` bytes in the unit that suits it, such as `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


T = TypeVar("T")


class PerProcess(Generic[T]):
    """A value that an operator keeps open or in memory.

    A copy or a pickle is empty, so another process makes its own value.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: list[T] = []  # none or one; any value may be held, None too

    def get(self, make: Callable[[], T]) -> T:
        """The value. The first caller makes it while others wait; if `make` raises, the next caller tries again."""
        if not self._values:
            with self._lock:
                if not self._values:
                    self._values.append(make())
        return self._values[0]

    def __reduce__(self) -> tuple[object, ...]:
        return PerProcess, ()


def import_whole(name: str) -> None:
    """Import a library that an interrupt would leave half imported, and useless for the rest of the process.

    No signal handler runs in the thread that imports it.
    """
    if name not in sys.modules:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as thread:
            thread.submit(importlib.import_module, name).result()


# Ranks in messages


def ranks_in_words(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0, 2`; of many, the first ones."""
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def differences_in_words(texts: Sequence[str]) -> str:
    """The texts of all ranks, equal ones together: `ranks 0, 2: epoch 1; rank 1: epoch 0`."""
    by_text: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        by_text.setdefault(text, []).append(rank)
    return "; ".join(f"{ranks_in_words(ranks)}: {text}" for text, ranks in by_text.items())
