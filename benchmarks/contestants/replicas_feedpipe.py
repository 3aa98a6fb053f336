"""Ours: ranks that need the same batches, which each of them makes, or one for all."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import zlib
from datetime import timedelta
from typing import Any

import numpy as np

import feedpipe as fp

RANKS, ROWS, SHAPE = 4, 32, (224, 224, 3)


def unpacked(row: bytes) -> Any:
    return np.frombuffer(zlib.decompress(row), np.uint8).reshape(SHAPE)


def measure(shared: bool, batches: int) -> dict[str, Any]:
    """CPU and wall seconds of one pass after a short one."""
    from torch import distributed  # noqa: F401, imported once for all ranks

    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = [(rank, f"file://{folder}/store", shared, batches, answers) for rank in range(RANKS)]
        processes = [context.Process(target=run_rank, args=each) for each in arguments]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a rank has failed")
    found = dict(answers.get() for _ in range(RANKS))
    cpu = [found[rank][0] for rank in range(RANKS)]
    other = max(cpu[1:])
    wall = max(found[rank][1] for rank in range(RANKS))
    return {"cpu": cpu[0], "cpu_other": other, "cpu_all": sum(cpu), "share": other / cpu[0], "wall": wall}


def run_rank(rank: int, store: str, shared: bool, batches: int, answers: Any) -> None:
    from torch import distributed

    distributed.init_process_group("gloo", store, timedelta(minutes=2), rank=rank, world_size=RANKS)
    image = zlib.compress(np.random.default_rng(0).integers(0, 60, SHAPE, np.uint8).tobytes(), 1)
    pipe = fp.from_sequence([image] * (ROWS * batches)).shuffle().map(unpacked).batch(ROWS).collate()
    group = distributed.new_group([*range(RANKS)]) if shared else None
    loader = fp.Loader(pipe, seed=1, rank=0, world_size=1, replicas=group)
    for _ in zip(range(5), loader, strict=False):
        pass
    distributed.barrier()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in loader:
        pass
    answers.put((rank, (time.process_time() - cpu, time.perf_counter() - wall)))
    distributed.barrier()
    loader.close()
    distributed.destroy_process_group()
