"""Grain's chain of datasets. Its batches are NumPy arrays.

By default 16 threads of each process would make 500 batches ahead, more than are timed; here one thread makes two, as
torch's `prefetch_factor` says, and without workers none.
"""

from __future__ import annotations

from typing import Any

import grain

from .dataloader_tasks import BATCH, described, timed


def _loader(dataset: Any, workers: int, shuffle: bool) -> Any:
    rows = grain.MapDataset.source(dataset)
    if shuffle:
        rows = rows.shuffle(seed=0)
    if not workers:
        return rows.batch(BATCH).to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    batches = rows.batch(BATCH).to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))
    return batches.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=workers))


def measure(work: str, folder: str, batches: int) -> dict[str, float]:
    return timed(_loader, work, folder, batches)


def check(work: str, folder: str, batches: int) -> dict[str, int]:
    return described(_loader, work, folder)
