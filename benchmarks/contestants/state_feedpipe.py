"""A pass with `loader.state_dict()` after every batch, beside one without, in the same process.

A third pass is the control: it does everything that the pass with states does and calls a function
that does nothing. Its ratio says how much two equal passes differ on this machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import feedpipe as fp

from .overhead_feedpipe import chain

TURNS = 6
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


class _Control:
    """A loader whose state costs nothing."""

    def __init__(self, loader: fp.Loader[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def state_dict(self) -> None:
        return None


def measure(rows: int, seed: int, pipe: str, workers: int) -> dict[str, Any]:
    with fp.Loader(_PIPES[pipe](rows), workers=workers, seed=seed) as loader:
        return compared(loader)


def compared(loader: fp.Loader[Any]) -> dict[str, Any]:
    """Medians over turns of three passes each, which take turns in going first."""
    control = _Control(loader)
    without(loader)
    with_state(loader)
    passes: list[Callable[[], dict[str, Any]]] = [
        lambda: {"seconds": without(loader)},
        lambda: {f"control_{name}": value for name, value in with_state(control).items()},
        lambda: with_state(loader),
    ]
    turns: list[dict[str, Any]] = []
    for number in range(TURNS):
        start = number % len(passes)
        turn: dict[str, Any] = {}
        for one in [*passes[start:], *passes[:start]]:
            turn.update(one())
        turn["ratio"] = turn["seconds_with"] / turn["seconds"]
        turn["control"] = turn["control_seconds_with"] / turn["seconds"]
        turn["share"] = (turn["in_calls"] - turn["control_in_calls"]) / turn["seconds"]
        turns.append(turn)
    return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}


def without(loader: fp.Loader[Any]) -> float:
    start = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - start


def with_state(loader: fp.Loader[Any] | _Control) -> dict[str, Any]:
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
