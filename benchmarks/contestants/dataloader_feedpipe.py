"""`feedpipe.compat.DataLoader`, which differs from torch's by the import alone."""

from __future__ import annotations

from feedpipe.compat import DataLoader

from .dataloader_tasks import described, timed


def measure(work: str, folder: str, batches: int) -> dict[str, float]:
    return timed(DataLoader, work, folder, batches)


def check(work: str, folder: str, batches: int) -> dict[str, int]:
    return described(DataLoader, work, folder)
