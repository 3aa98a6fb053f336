"""The datasets of `dataloader`, which all loaders get, and how a pass is timed.

- `fashion`: Fashion-MNIST in NumPy arrays, an image and its label for each row. The files are Debian's, if they are
  there; else random bytes of the same shape, which cost the same.
- `tensors`: the same as a `TensorDataset` of float32.
- `jpeg`: files, decoded and resized by Pillow.
- `tokens`: windows of 256 tokens and their successors, out of an array of two million.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .jpeg_tasks import load, paths

BATCH = 64
WORKERS = 0, 1, 2
IMAGES = 512
WINDOW = 256
DEBIAN = Path("/usr/share/datasets/fashion-mnist")


class Fashion:
    def __init__(self) -> None:
        self.images, self.labels = fashion_mnist()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.images[index], self.labels[index]


class Files:
    def __init__(self, folder: str) -> None:
        self.paths = paths(folder, IMAGES)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return load(self.paths[index])


class Tokens:
    def __init__(self) -> None:
        self.tokens = np.random.default_rng(0).integers(0, 50_000, 2_000_000).astype(np.uint16)

    def __len__(self) -> int:
        return len(self.tokens) // WINDOW - 1

    def __getitem__(self, index: int) -> Any:
        window = self.tokens[index * WINDOW : (index + 1) * WINDOW + 1].astype(np.int64)
        return {"input_ids": window[:-1], "labels": window[1:]}


def fashion_mnist() -> tuple[np.ndarray, np.ndarray]:
    if DEBIAN.exists():
        images, labels = (
            np.frombuffer(gzip.decompress((DEBIAN / f"train-{name}-ubyte.gz").read_bytes())[head:], np.uint8)
            for name, head in (("images-idx3", 16), ("labels-idx1", 8))
        )
        return images.reshape(-1, 28, 28).copy(), labels.astype(np.int64)
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (60_000, 28, 28)).astype(np.uint8), generator.integers(0, 10, 60_000)


def _tensors(folder: str) -> Any:
    import torch
    from torch.utils.data import TensorDataset

    images, labels = fashion_mnist()
    return TensorDataset(torch.from_numpy(images).float().div(255).unsqueeze(1), torch.from_numpy(labels))


DATASETS: dict[str, Callable[[str], Any]] = {
    "fashion": lambda folder: Fashion(),
    "tensors": _tensors,
    "jpeg": Files,
    "tokens": lambda folder: Tokens(),
}

Make = Callable[..., Any]
"""Makes a loader of a dataset: `make(dataset, workers, shuffle)`. Each iteration over it is an epoch."""


def timed(make: Make, work: str, folder: str, batches: int, workers: tuple[int, ...] = WORKERS) -> dict[str, float]:
    """Seconds for each batch, by the number of workers."""
    dataset = DATASETS[work](folder)
    return {f"workers_{number}": _seconds(make(dataset, number, True), dataset, batches) for number in workers}


def _seconds(loader: Any, dataset: Any, batches: int) -> float:
    """Of a part of the second epoch: the workers are there, and the caches are warm."""
    count = min(batches, -(-len(dataset) // BATCH))
    for _ in islice(loader, max(1, count // 4)):
        pass
    elements = iter(loader)
    next(elements)
    start = time.perf_counter()
    taken = sum(1 for _ in islice(elements, count - 1))
    return (time.perf_counter() - start) / taken


def described(make: Make, work: str, folder: str, workers: tuple[int, ...] = WORKERS) -> dict[str, int]:
    """How many values of the first batches, in order, differ from those of the rows."""
    dataset = DATASETS[work](folder)
    differing = 0
    for number in workers:
        for place, batch in enumerate(islice(make(dataset, number, False), 3)):
            rows = [_parts(dataset[place * BATCH + row]) for row in range(BATCH)]
            for column, values in zip(zip(*rows, strict=True), _parts(batch), strict=True):
                differing += int((np.stack([np.asarray(value) for value in column]) != np.asarray(values)).sum())
    return {"differing": differing}


def _parts(row: Any) -> list[Any]:
    return list(row.values() if isinstance(row, dict) else row)
