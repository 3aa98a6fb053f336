"""torch's DataLoader over an IterableDataset: row by row with a buffer, or whole batches, written by hand for speed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .parquet_tasks import BATCH, BUFFER, WINDOW, described, paced, paths, timed


def _mine(folder: str) -> Iterator[pa.Table]:
    """The row groups of this worker's files, in a random order."""
    info = get_worker_info()
    assert info is not None
    files = [parquet.ParquetFile(path) for path in paths(folder)[info.id :: info.num_workers]]
    groups = [(file, number) for file in files for number in range(file.num_row_groups)]
    random.shuffle(groups)
    for file, number in groups:
        yield file.read_row_group(number, use_threads=False)


class Rows(IterableDataset[Any]):
    """One row after another, through a buffer."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[Any]:
        held: list[Any] = []
        for table in _mine(self.folder):
            for row in table.to_pylist():
                if len(held) < BUFFER:
                    held.append(row)
                    continue
                at = random.randrange(BUFFER)
                yield held[at]
                held[at] = row
        random.shuffle(held)
        yield from held


class Batches(IterableDataset[Any]):
    """Batches, from a window's worth of row groups at a time, permuted by NumPy."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[Any]:
        held: list[pa.Table] = []
        for table in _mine(self.folder):
            held.append(table)
            if sum(map(len, held)) >= WINDOW:
                yield from self._batches(held)
                held = []
        if held:
            yield from self._batches(held)

    def _batches(self, tables: list[pa.Table]) -> Iterator[Any]:
        table = pa.concat_tables(tables)
        order = np.random.permutation(len(table))
        columns = {name: table[name].to_numpy()[order] for name in table.column_names}
        for start in range(0, len(order), BATCH):
            yield {name: torch.from_numpy(column[start : start + BATCH]) for name, column in columns.items()}


def loader(folder: str, style: str) -> DataLoader[Any]:
    if style == "rows":
        return DataLoader(Rows(folder), batch_size=BATCH, num_workers=2)
    return DataLoader(Batches(folder), batch_size=None, num_workers=2, persistent_workers=True)


def measure(folder: str, rows: int, seconds: float, style: str) -> dict[str, Any]:
    return paced(loader(folder, style), seconds) if style == "rows" else timed(loader(folder, style))


def check(folder: str, rows: int, seconds: float, style: str) -> dict[str, Any]:
    return described(loader(folder, style), rows if style == "batches" else 10 * BATCH)
