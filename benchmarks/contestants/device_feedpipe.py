"""Ours: `Loader(device=)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch

import feedpipe as fp

from .device_tasks import BATCH, described, images, timed


def _epochs(device: str, workers: int) -> Iterator[Iterable[torch.Tensor]]:
    pipe = fp.from_arrays({"image": images()}).batch(BATCH).collate().map(lambda batch: batch["image"])
    with fp.Loader(pipe, workers=workers, device=device) as loader:
        while True:
            yield loader


def measure(work: str, device: str, workers: int, seconds: float) -> Any:
    return timed(partial(_epochs, workers=workers), work, device, seconds)


def check(work: str, device: str, workers: int, seconds: float) -> dict[str, Any]:
    return described(partial(_epochs, workers=workers), device)
