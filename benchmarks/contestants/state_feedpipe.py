"""A pass with `loader.state_dict()` after every batch, beside one without, in the same process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import feedpipe as fp

from .overhead_feedpipe import chain

PAIRS = 5
FEATURES = 64


def rows_chain(rows: int) -> fp.Pipe[Any]:
    return chain(rows)


def arrays_chain(rows: int) -> fp.Pipe[Any]:
    import numpy as np

    generator = np.random.default_rng(0)
    x = generator.random((rows, FEATURES), dtype=np.float32)
    y = np.arange(rows, dtype=np.int64) % 10
    return fp.from_arrays({"x": x, "y": y}).shuffle().batch(256).collate()


_PIPES: dict[str, Callable[[int], fp.Pipe[Any]]] = {"rows": rows_chain, "arrays": arrays_chain}


def measure(rows: int, seed: int, pipe: str) -> dict[str, Any]:
    """Medians over pairs of passes; the two of a pair take turns in going first."""
    loader = fp.Loader(_PIPES[pipe](rows), seed=seed)
    without(loader)
    with_state(loader)
    pairs = []
    for number in range(PAIRS):
        if number % 2:
            stated, plain = with_state(loader), without(loader)
        else:
            plain, stated = without(loader), with_state(loader)
        pairs.append({**plain, **stated})
    pairs.sort(key=lambda each: each["seconds_with"] / each["seconds"])
    ratios = [each["seconds_with"] / each["seconds"] for each in pairs]
    shares = sorted(each["in_calls"] / each["seconds"] for each in pairs)
    middle = pairs[PAIRS // 2]
    return {**middle, "ratio": ratios[PAIRS // 2], "share": shares[PAIRS // 2]}


def without(loader: fp.Loader[Any]) -> dict[str, Any]:
    start = time.perf_counter()
    for _ in loader:
        pass
    return {"seconds": time.perf_counter() - start}


def with_state(loader: fp.Loader[Any]) -> dict[str, Any]:
    clock = time.perf_counter
    in_calls = 0.0
    calls = 0
    state: Any = None
    start = clock()
    for _ in loader:
        before = clock()
        state = loader.state_dict()
        in_calls += clock() - before
        calls += 1
    seconds = clock() - start
    return {
        "seconds_with": seconds,
        "in_calls": in_calls,
        "calls": calls,
        "bytes": len(json.dumps(state)),
    }
