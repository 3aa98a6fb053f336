"""Grain over the files, with Pillow, in worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grain
import numpy as np

from .images_tasks import BATCH, WORKERS, by_pillow, described, paths, timed


def _image(path: str, rng: np.random.Generator) -> Any:
    return by_pillow(Path(path).read_bytes(), rng)


def _batches(folder: str, size: str) -> Any:
    dataset = grain.MapDataset.source(paths(folder, size)).seed(1).shuffle().random_map(_image).batch(BATCH)
    return dataset.to_iter_dataset().mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=WORKERS))


def measure(folder: str, size: str) -> dict[str, Any]:
    return timed(_batches(folder, size))


def check(folder: str, size: str) -> dict[str, Any]:
    return described(_batches(folder, size))
