"""What the contestants of `start` read, and how it is timed: from making the loader to its first batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import torch

BATCH = 256
ROWS = 10_000
WORKERS = 2


def arrays() -> dict[str, np.ndarray]:
    return {"x": np.ones((ROWS, 64), np.float32), "y": np.arange(ROWS)}


def timed(elements: Callable[[], Iterator[Any]]) -> dict[str, float]:
    start = time.perf_counter()
    with closing(elements()) as batches:  # type: ignore[type-var]
        next(batches)
        seconds = time.perf_counter() - start
    return {"seconds": seconds}


def described(elements: Callable[[], Iterator[Any]]) -> dict[str, Any]:
    with closing(elements()) as batches:  # type: ignore[type-var]
        first = next(batches)
    numbers = first["y"].tolist() if isinstance(first, dict) else list(first)
    whole = not isinstance(first, dict) or torch.equal(first["x"], torch.ones(BATCH, 64))
    return {"wrong": int(numbers != list(range(BATCH))) + (not whole)}
