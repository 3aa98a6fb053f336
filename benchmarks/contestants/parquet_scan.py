"""The limit: pyarrow's own scan, with its threads, which hands out columns in the order of the files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyarrow import dataset

from .parquet_tasks import PASSES, described, paths, stopwatch


def batches(folder: str) -> Iterator[Any]:
    return dataset.dataset(paths(folder)).to_batches()


def measure(folder: str, rows: int, seconds: float) -> dict[str, Any]:
    stop = stopwatch()
    return stop(sum(batch.num_rows for _ in range(PASSES) for batch in batches(folder)))


def check(folder: str, rows: int, seconds: float) -> dict[str, Any]:
    columns = ({name: batch[name].to_numpy() for name in ("id", "label", "f0")} for batch in batches(folder))
    return described(({**each} if len(each["id"]) else {"id": []} for each in columns), rows)
