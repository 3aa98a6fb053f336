"""`memory_budget`: how many bytes a rank may use; for its elements, and for the windows of its shuffles."""

from __future__ import annotations

import os
from pathlib import Path

from .checks import check_bytes

_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_budget() -> int:
    """The memory of the machine, or of the control group of this process, divided by `LOCAL_WORLD_SIZE`."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        try:
            available = min(available, int(path.read_text()))
        except (OSError, ValueError):  # there is no such control group, or it has no limit ("max")
            continue
    return available // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


def element_memory(memory: int | str | None) -> int:
    """Bytes that the elements of a service may hold: its argument `memory`, or a quarter of what a rank may use."""
    return memory_budget() // 4 if memory is None else check_bytes("memory", memory)


def large_windows(size: int) -> str | None:
    """What to say if the windows of a rank hold `size` bytes; None unless that is over a quarter of its memory."""
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
