"""Ours: a pass over Parquet files that are larger than what the processes may hold, and what they hold meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import feedpipe as fp

from .memory_tasks import sets
from .processes import below

BATCH = 4096
COLUMNS = 16
FILES = 4
GROUP = 1_000_000
LOOKS = 20  # at the memory, in a pass


def paths(folder: str) -> list[str]:
    return [f"{folder}/{number}.parquet" for number in range(FILES)]


def make(folder: str, gigabytes: float) -> dict[str, Any]:
    """Random float32 columns, which no compression makes smaller."""
    generator = np.random.default_rng(0)
    each = int(gigabytes * 1e9 / FILES / COLUMNS / 4)
    for path in paths(folder):
        with parquet.ParquetWriter(path, pa.schema([(f"f{k}", pa.float32()) for k in range(COLUMNS)])) as writer:
            for start in range(0, each, GROUP):
                count = min(GROUP, each - start)
                values = [generator.random(count, dtype=np.float32) for _ in range(COLUMNS)]
                writer.write_table(pa.table(values, schema=writer.schema), row_group_size=GROUP)
    return {"bytes": sum(Path(path).stat().st_size for path in paths(folder))}


def measure(folder: str, gigabytes: float, window: int) -> dict[str, Any]:
    rows = sum(parquet.read_metadata(path).num_rows for path in paths(folder))
    pipe = fp.read_parquet(paths(folder))
    if window:
        pipe = pipe.shuffle(window=window)
    found: list[float] = []
    count = 0
    start = time.perf_counter()
    with fp.Loader(pipe.batch(BATCH).collate(), workers=2) as loader:
        for batch in loader:
            count += len(batch["f0"])
            if count * LOOKS >= rows * (len(found) + 1):
                found.append(sum(sets(pid)[0] for pid in [os.getpid(), *below(os.getpid())]))
    seconds = time.perf_counter() - start
    half = len(found) // 2
    return {
        "seconds": seconds,
        "rows": count,
        "complete": count == rows,
        "first": found[0],
        "first_half": max(found[:half]),
        "second_half": max(found[half:]),
        "last": found[-1],
    }
