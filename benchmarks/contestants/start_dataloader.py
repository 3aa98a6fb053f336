"""torch's DataLoader over a Dataset of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch.utils.data import DataLoader, Dataset

from .start_tasks import BATCH, ROWS, WORKERS, arrays, described, timed


class Rows(Dataset[Any]):
    def __init__(self) -> None:
        self.arrays = arrays()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, i: int) -> Any:
        return {name: array[i] for name, array in self.arrays.items()}


def elements(dataset: Rows, method: str) -> Iterator[Any]:
    yield from DataLoader(dataset, batch_size=BATCH, num_workers=WORKERS, multiprocessing_context=method)


def _start(method: str) -> Callable[[], Iterator[Any]]:
    return partial(elements, Rows(), method)


def measure(method: str) -> dict[str, Any]:
    return timed(_start(method))


def check(method: str) -> dict[str, Any]:
    return described(_start(method))
