"""A `ThreadPoolExecutor` by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .concurrency_tasks import timed, wait


def measure(rows: int, threads: int) -> dict[str, Any]:
    with ThreadPoolExecutor(threads) as pool:
        return timed(lambda: pool.map(wait, range(rows)), rows, threads)
