"""What the numbers were taken on."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from typing import Any

from .environments import ROOT


def machine() -> dict[str, Any]:
    """Date, Python, processor, cores, memory, commit and load: plain JSON values."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gib": _memory(),
        "load": [round(each, 2) for each in os.getloadavg()],
        "commit": _commit(),
    }


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None


def _commit() -> str | None:
    """The commit, with a `+` if the working tree differs from it; None outside a checkout."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    return head + ("+" if _git("status", "--porcelain") else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
