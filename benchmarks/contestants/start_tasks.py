"""What the contestants of `start` read, and how it is timed: from making the loader to its first batch.

Other work of the program, between the two, does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

BATCH = 256
ROWS = 10_000
WORKERS = 2


def arrays() -> dict[str, np.ndarray]:
    return {"x": np.ones((ROWS, 64), np.float32), "y": np.arange(ROWS)}


def timed(make: Callable[[], Iterable[Any]], work: float) -> dict[str, float]:
    start = time.perf_counter()
    loader = make()
    made = time.perf_counter() - start
    time.sleep(work)
    start = time.perf_counter()
    batches = iter(loader)
    next(batches)
    return {"seconds": made + time.perf_counter() - start}


def described(make: Callable[[], Iterable[Any]]) -> dict[str, Any]:
    first = next(iter(make()))
    numbers = first["y"].tolist() if isinstance(first, dict) else list(first)
    whole = not isinstance(first, dict) or torch.equal(first["x"], torch.ones(BATCH, 64))
    return {"wrong": int(numbers != list(range(BATCH))) + (not whole)}
