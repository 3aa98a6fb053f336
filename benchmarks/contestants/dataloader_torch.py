"""torch's DataLoader."""

from __future__ import annotations

from torch.utils.data import DataLoader

from .dataloader_tasks import described, timed


def measure(work: str, folder: str, batches: int) -> dict[str, float]:
    return timed(DataLoader, work, folder, batches)


def check(work: str, folder: str, batches: int) -> dict[str, int]:
    return described(DataLoader, work, folder)
