"""Grain's threads for reading, which run `map` too."""

from __future__ import annotations

from typing import Any

import grain

from .concurrency_tasks import timed, wait


def measure(rows: int, threads: int) -> dict[str, Any]:
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4 * threads)
    dataset = grain.MapDataset.range(rows).map(wait).to_iter_dataset(options)
    return timed(lambda: dataset, rows, threads)
