"""The limit: batches that lie in pinned memory, copied to the device one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .device_tasks import BATCH, described, images, timed


def _epochs(device: str) -> Iterator[Iterable[torch.Tensor]]:
    batches = list(torch.from_numpy(images()).split(BATCH))
    if device == "cuda":
        batches = [batch.pin_memory() for batch in batches]
    while True:
        yield (batch.to(device, non_blocking=True) for batch in batches)


def measure(work: str, device: str, seconds: float) -> Any:
    return timed(_epochs, work, device, seconds)


def check(work: str, device: str, seconds: float) -> dict[str, Any]:
    return described(_epochs, device)
