"""SPDL's stand-in for torch's DataLoader. It always has workers, and starts them again for each epoch."""

from __future__ import annotations

from typing import Any

from spdl.dataloader import get_pytorch_dataloader

from .dataloader_tasks import BATCH, described, timed

WORKERS = 1, 2


def _loader(dataset: Any, workers: int, shuffle: bool) -> Any:
    return get_pytorch_dataloader(dataset, BATCH, shuffle, num_workers=workers, in_order=True)


def measure(work: str, folder: str, batches: int) -> dict[str, float]:
    return timed(_loader, work, folder, batches, WORKERS)


def check(work: str, folder: str, batches: int) -> dict[str, int]:
    return described(_loader, work, folder, WORKERS)
