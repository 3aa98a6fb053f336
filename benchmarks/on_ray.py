"""`fp.Ray` beside Ray Data and plain calls, on a cluster of two nodes on this machine.

    .venv-clients/bin/python -m benchmarks.on_ray [small | large | waiting | services ...]

Rounds alternate between the contestants, because the machine may have other work. The numbers are medians.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "clients"))
from ray_cluster import ENVIRONMENT, RayCluster

os.environ.update(ENVIRONMENT)
import ray

import feedpipe as fp

ROUNDS = 5
ROWS, COLUMNS, SMALL_BATCH = 256_000, 8, 32
LARGE_BYTES, LARGE_COUNT = 8_000_000, 60
WAIT_SECONDS, WAITS = 0.05, 40


def main() -> None:
    with RayCluster() as cluster:
        ray.init(address=cluster.address, _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")
        for name in sys.argv[1:] or PARTS:
            PARTS[name]()
        ray.shutdown()


def small() -> None:
    """Batches of 32 rows of 8 numbers."""
    array = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    dataset = ray.data.from_numpy(array).materialize()
    ray.data.DataContext.get_current().enable_progress_bars = False
    with fp.Loader(fp.from_arrays({"data": array}).batch(SMALL_BATCH).collate(), fp.Ray(2, cpus=0.5)) as loader:
        contestants = {
            "Ray Data": lambda: dataset.iter_torch_batches(batch_size=SMALL_BATCH),
            "feedpipe": lambda: loader,
        }
        seconds = measure(contestants, ROWS // SMALL_BATCH, rounds=3)
    report("small batches", seconds, ROWS // SMALL_BATCH, "us", 1e6)


def large() -> None:
    """Elements of 8 MB, from one actor on each node."""

    def make(number: int) -> np.ndarray:
        return np.full(LARGE_BYTES, number % 100, np.uint8)

    class Maker:
        def make(self, number: int) -> np.ndarray:
            return make(number)

    makers = [ray.remote(Maker).options(num_cpus=0.5, scheduling_strategy="SPREAD").remote() for _ in range(2)]

    def plain() -> Iterator[np.ndarray]:
        calls: deque[Any] = deque()
        for number in range(LARGE_COUNT):
            calls.append(makers[number % 2].make.remote(number))
            if len(calls) == 6:
                yield ray.get(calls.popleft())
        while calls:
            yield ray.get(calls.popleft())

    with fp.Loader(fp.from_sequence(range(LARGE_COUNT)).map(make), fp.Ray(2, cpus=0.5)) as loader:
        seconds = measure({"ray.get": plain, "feedpipe": lambda: loader}, LARGE_COUNT)
    report("8 MB elements", seconds, LARGE_COUNT, "ms", 1e3)


def waiting() -> None:
    """Elements for which a function waits 50 ms: how the work spreads, without arithmetic."""

    def wait(number: int) -> int:
        time.sleep(WAIT_SECONDS)
        return number

    pipe = fp.from_sequence(range(WAITS)).map(wait)
    for actors in (1, 2, 4):
        with fp.Loader(pipe, fp.Ray(actors, cpus=0.5)) as loader:
            seconds = measure({f"feedpipe, {actors} actors": lambda: loader}, WAITS, rounds=2)
        report("waits", seconds, WAITS, "ms", 1e3)


def services() -> None:
    """What each service costs: its start, a small element, and a megabyte."""
    empty = fp.from_sequence(range(5000)).map(lambda number: None)
    tensors = empty.map(lambda _: {str(key): np.zeros(8) for key in range(10)})
    arrays = fp.from_sequence(range(64)).map(lambda number: np.ones(1 << 20, np.uint8))
    places = (fp.InProcess(), fp.Threads(2), fp.MultiProcess(2), fp.Ray(2, cpus=0.5))
    with fp.Loader(empty, places[2]) as warm:  # starts the fork server
        list(warm)
    for place in places:
        starts: list[float] = []
        costs = {"small element": (tensors, 5000, 1e6), "MB": (arrays, 64, 1e3)}
        for _ in range(3):
            start = time.perf_counter()
            with fp.Loader(empty, place) as loader:
                next(iter(loader))
                starts.append(time.perf_counter() - start)
        line = f"{type(place).__name__}: start {statistics.median(starts):.3f} s"
        for what, (pipe, count, scale) in costs.items():
            with fp.Loader(pipe, place) as loader:
                seconds = statistics.median(measure({"": lambda: loader}, count, rounds=3)[""])
            line += f", {seconds / count * scale:.2f} {'us' if scale == 1e6 else 'ms'} a {what}"
        print(line, flush=True)


def measure(contestants: dict[str, Callable[[], Any]], count: int, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each round, after one that warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, begin in contestants.items():
            start = time.perf_counter()
            elements = sum(1 for _ in begin())
            if number:
                seconds[name].append(time.perf_counter() - start)
            assert elements == count, f"{name} gave {elements} elements"
    return seconds


def report(what: str, seconds: dict[str, list[float]], count: int, unit: str, scale: float) -> None:
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{what}: {name}: {median / count * scale:.1f} {unit} an element")
    if len(medians) == 2:
        other, ours = medians.values()
        print(f"{what}: ratio {other / ours:.2f}", flush=True)


PARTS = {"small": small, "large": large, "waiting": waiting, "services": services}

if __name__ == "__main__":
    main()
