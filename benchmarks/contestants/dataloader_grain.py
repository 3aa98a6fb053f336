"""Grain's chain of datasets. Its batches are NumPy arrays, and without workers it reads in 16 threads."""

from __future__ import annotations

from typing import Any

import grain

from .dataloader_tasks import BATCH, described, timed


def _loader(dataset: Any, workers: int, shuffle: bool) -> Any:
    rows = grain.MapDataset.source(dataset)
    if shuffle:
        rows = rows.shuffle(seed=0)
    batches = rows.batch(BATCH).to_iter_dataset()
    if not workers:
        return batches
    return batches.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=workers))


def measure(work: str, folder: str, batches: int) -> dict[str, float]:
    return timed(_loader, work, folder, batches)


def check(work: str, folder: str, batches: int) -> dict[str, int]:
    return described(_loader, work, folder)
