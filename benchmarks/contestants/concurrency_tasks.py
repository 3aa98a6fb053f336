"""A function that waits, as for an answer over the network, and how its results are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

WAIT = 0.05


def wait(number: int) -> int:
    time.sleep(WAIT)
    return number


def timed(results: Callable[[], Iterable[Any]], rows: int, threads: int) -> dict[str, Any]:
    """A whole pass. `share` is the part of `threads` results in each `WAIT` that came."""
    start = time.perf_counter()
    numbers = [int(number) for number in results()]
    seconds = time.perf_counter() - start
    if numbers != list(range(rows)):
        raise ValueError("the results are not those of all rows in order")
    return {"seconds": seconds, "share": rows * WAIT / threads / seconds}
