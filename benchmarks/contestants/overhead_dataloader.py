"""torch's DataLoader, in this process, over an IterableDataset with the shuffle written by hand.

What is compared is the loader: the dataset is the quick hand-written loop, and batches stay lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from .overhead_handwritten import tuned_rows
from .tasks import BATCH, described, timed


class Shuffled(IterableDataset[int]):
    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        return tuned_rows(self.rows, self.seed)


def _same(rows: list[int]) -> list[int]:
    return rows


def build(rows: int, seed: int) -> Iterable[list[int]]:
    return DataLoader(Shuffled(rows, seed), batch_size=BATCH, collate_fn=_same, num_workers=0)


def measure(rows: int, seed: int) -> dict[str, Any]:
    return timed(build, rows, seed)


def check(rows: int, seed: int) -> dict[str, Any]:
    return described(build, rows, seed)
