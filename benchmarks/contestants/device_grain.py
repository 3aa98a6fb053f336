"""Grain's batches, from the rows of an array, pinned here and copied without blocking, one batch ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import grain
import torch

from .device_tasks import BATCH, described, images, one_ahead, timed


def _epochs(device: str, workers: int) -> Iterator[Iterable[torch.Tensor]]:
    batches = grain.MapDataset.source(images()).batch(BATCH).to_iter_dataset(grain.ReadOptions(1, 2))
    if workers:
        batches = batches.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=workers))
    while True:
        yield one_ahead((_pinned(batch, device) for batch in batches), device)


def _pinned(batch: Any, device: str) -> torch.Tensor:
    tensor = torch.from_numpy(batch)
    return tensor.pin_memory() if device == "cuda" else tensor


def measure(work: str, device: str, workers: int, seconds: float) -> Any:
    return timed(partial(_epochs, workers=workers), work, device, seconds)


def check(work: str, device: str, workers: int, seconds: float) -> dict[str, Any]:
    return described(partial(_epochs, workers=workers), device)
