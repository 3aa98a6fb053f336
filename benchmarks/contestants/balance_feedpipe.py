"""Ours: batches of rows of other lengths, balanced or not."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

import feedpipe as fp


def _build(way: str, count: int) -> fp.Pipe[Any]:
    lengths = np.random.default_rng(0).lognormal(5, 0.5, count).astype(np.int64)
    rows = fp.from_arrays({"n": np.arange(count), "length": lengths}).shuffle()
    match way:
        case "batch":
            return rows.batch(8)
        case "balance":
            return rows.batch(8, balance="length", among=64)
        case _:
            return rows.batch_by_size(2048, "length", among=64)


def _slowest(costs: npt.NDArray[Any], ranks: int) -> float:
    """The cost of the slowest rank of a step over that of all, as a mean over the steps."""
    steps = costs[: len(costs) // ranks * ranks].reshape(-1, ranks)
    return float((steps.max(1) / steps.mean(1)).mean())


def measure(way: str, count: int) -> dict[str, Any]:
    """CPU seconds of the second pass for each row, and how equal the batches are."""
    warnings.simplefilter("ignore", fp.errors.PlanWarning)
    loader = fp.Loader(_build(way, count), shards=1 if way == "by size" else None)
    costs = np.array([batch["length"].sum() for batch in loader])
    if way == "by size":
        costs = costs[: int(np.flatnonzero(costs > 1900)[-1]) // 64 * 64]  # without the last ones, which are smaller
    start = time.process_time()
    for _ in loader:
        pass
    seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "seconds_each": seconds / count,
        "slowest_8": _slowest(costs, 8),
        "slowest_64": _slowest(costs, 64),
    }


def check(way: str, count: int) -> dict[str, Any]:
    warnings.simplefilter("ignore", fp.errors.PlanWarning)
    rows = np.sort(np.concatenate([batch["n"] for batch in fp.Loader(_build(way, count))]))
    return {"whole": bool((rows == np.arange(count)).all())}
