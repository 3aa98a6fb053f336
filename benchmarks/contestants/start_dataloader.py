"""A DataLoader over a Dataset of arrays: torch's, and the look-alike of feedpipe."""

from __future__ import annotations

from collections.abc import Callable
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


def _start(method: str, is_compat: bool) -> Callable[[], Any]:
    kind: Any = DataLoader
    if is_compat:
        from feedpipe import compat

        kind = compat.DataLoader
    return partial(kind, Rows(), batch_size=BATCH, num_workers=WORKERS, multiprocessing_context=method)


def measure(method: str, work: float = 0.0, is_compat: bool = False) -> dict[str, Any]:
    return timed(_start(method, is_compat), work)


def check(method: str, work: float = 0.0, is_compat: bool = False) -> dict[str, Any]:
    return described(_start(method, is_compat))
