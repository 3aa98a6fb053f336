"""torch's DataLoader, with pinned memory and copies that do not block, one batch ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader

from .device_tasks import BATCH, Dataset, described, one_ahead, timed


def _epochs(device: str, workers: int) -> Iterator[Iterable[torch.Tensor]]:
    pin = device == "cuda"
    dataset: Any = Dataset()
    loader = DataLoader(dataset, BATCH, num_workers=workers, pin_memory=pin, persistent_workers=workers > 0)
    while True:
        yield one_ahead(loader, device)


def measure(work: str, device: str, workers: int, seconds: float) -> Any:
    return timed(partial(_epochs, workers=workers), work, device, seconds)


def check(work: str, device: str, workers: int, seconds: float) -> dict[str, Any]:
    return described(partial(_epochs, workers=workers), device)
