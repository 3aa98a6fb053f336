"""torch's DataLoader, forked, over a Dataset that holds the list.

Its sampler is a list of random places made beforehand: the one for `shuffle=True` makes a list of all numbers first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset

from .memory_tasks import WORKERS, compared


class Lengths(Dataset[int]):
    def __init__(self, strings: list[str]) -> None:
        self.strings = strings

    def __len__(self) -> int:
        return len(self.strings)

    def __getitem__(self, i: int) -> int:
        return len(self.strings[i])


def elements(strings: list[str], sample: int) -> Iterator[int]:
    places = random.Random(0).sample(range(len(strings)), 2 * sample)
    yield from DataLoader(
        Lengths(strings), sampler=places, batch_size=None, num_workers=WORKERS, multiprocessing_context="fork"
    )


def measure(paths: int, sample: int) -> dict[str, Any]:
    return compared(elements, paths, sample)
