"""torch's DataLoader, with everything at its default but the number of workers.

Elements that are made whole need no batching; samples it collates itself, in the worker, into shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset

from .transport_tasks import BATCH, ROWS, WORKS, described, paced


class Made(Dataset[Any]):
    def __init__(self, work: str) -> None:
        self.make = WORKS[work]

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, i: int) -> Any:
        return self.make(i)


def elements(work: str, workers: int) -> Iterator[Any]:
    batch_size = BATCH if work == "sample" else None
    yield from DataLoader(Made(work), batch_size=batch_size, num_workers=workers)


def measure(seconds: float, work: str, workers: int) -> dict[str, float]:
    return paced(elements(work, workers), seconds)


def check(seconds: float, work: str, workers: int) -> dict[str, int]:
    return described(elements(work, workers), work)
