"""Two ranks that agree on the end of an epoch, beside the same two that need not, in the same processes.

Both passes run the same chain. With `even="drop"` its length is not known, so the ranks exchange how many elements they
hold; with `even=None` they only look whether the other has failed. A third kind of pass repeats the second one: the
ratio of the two says how much equal passes differ on this machine.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from typing import Any

import feedpipe as fp

RANKS = 2
TURNS = 20
PASSES = {"agreeing": "drop", "known": None, "control": None}


def is_kept(row: int) -> bool:
    return row >= 0


def measure(rows: int, batch: int) -> dict[str, Any]:
    """Medians over turns of one pass of each kind, of the rank that takes longer or uses more."""
    context = multiprocessing.get_context("spawn")
    answers: SimpleQueue[dict[str, list[tuple[float, float]]]] = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = [(rank, f"file://{folder}/store", rows, batch, answers) for rank in range(RANKS)]
        processes = [context.Process(target=run_rank, args=each) for each in arguments]
        for process in processes:
            process.start()
        ranks = [answers.get() for _ in range(RANKS)]
        for process in processes:
            process.join()
    times = {name: [_slowest(turn) for turn in zip(*(rank[name] for rank in ranks), strict=True)] for name in PASSES}
    figures: dict[str, Any] = {"batches": rows // batch // RANKS}
    for place, kind in enumerate(("wall", "cpu")):
        turns = {name: [turn[place] for turn in values] for name, values in times.items()}
        figures[kind] = statistics.median(turns["agreeing"])
        for name in ("agreeing", "control"):
            ratios = [one / known for one, known in zip(turns[name], turns["known"], strict=True)]
            figures[f"{kind}_{name}"] = statistics.median(ratios)
    return figures


def _slowest(ranks: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The longest wall time and the longest CPU time of all ranks."""
    return max(wall for wall, _ in ranks), max(cpu for _, cpu in ranks)


def run_rank(rank: int, store: str, rows: int, batch: int, answers: Any) -> None:
    """Runs all passes on one rank, and puts their wall and CPU times."""
    from torch import distributed

    distributed.init_process_group("gloo", store, rank=rank, world_size=RANKS)
    pipe = fp.from_sequence(range(rows)).filter(is_kept).batch(batch)
    loaders = {name: fp.Loader(pipe, even=even) for name, even in PASSES.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in PASSES}
    for turn in range(TURNS + 1):
        for name in [*PASSES][turn % 3 :] + [*PASSES][: turn % 3]:
            distributed.barrier()
            with timed(lambda pair, name=name: times[name].append(pair)):
                deque(loaders[name], maxlen=0)
    answers.put({name: pairs[1:] for name, pairs in times.items()})  # the first turn warms up
    distributed.barrier()
    distributed.destroy_process_group()


@contextmanager
def timed(note: Callable[[tuple[float, float]], None]) -> Iterator[None]:
    """Notes the wall and the CPU time of its body."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    note((time.perf_counter() - wall, time.process_time() - cpu))
