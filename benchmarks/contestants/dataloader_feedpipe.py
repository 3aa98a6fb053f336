"""`feedpipe.compat.DataLoader`, which differs from torch's by the import alone."""

from __future__ import annotations

from typing import Any

from feedpipe.compat import DataLoader

from .dataloader_tasks import BATCH, described, timed


def _loader(dataset: Any, workers: int, shuffle: bool) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=BATCH, shuffle=shuffle, num_workers=workers, persistent_workers=workers > 0)


def measure(work: str, folder: str, batches: int) -> dict[str, float]:
    return timed(_loader, work, folder, batches)


def check(work: str, folder: str, batches: int) -> dict[str, int]:
    return described(_loader, work, folder)
