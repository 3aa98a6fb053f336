"""The files that all contestants of `parquet` read, and how a pass over them is timed.

A row has six float32 values, an id and a label; the first value and the label follow from the id, so that a row torn
apart would show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .processes import cpu_seconds

BATCH = 4096
WINDOW = 200_000
BUFFER = WINDOW // 2  # of a reservoir, which shuffles as deeply: as many neighbours stay in one batch
GROUP = 100_000
FILES = 8
PASSES = 3  # one alone takes about a second, which is little on a noisy machine


def paths(folder: str) -> list[str]:
    return [f"{folder}/{number}.parquet" for number in range(FILES)]


def first_value(ids: np.ndarray) -> np.ndarray:
    return (ids * 7919 % 1_000_003).astype(np.float32)


def make(folder: str, rows: int) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import parquet

    generator = np.random.default_rng(0)
    each = rows // FILES
    for number, path in enumerate(paths(folder)):
        ids = np.arange(number * each, (number + 1) * each)
        values = {f"f{k}": generator.standard_normal(each, dtype=np.float32) for k in range(1, 6)}
        table = pa.table({"f0": first_value(ids), **values, "id": ids, "label": ids % 10})
        parquet.write_table(table, path, compression="zstd", row_group_size=GROUP)
    return {"bytes": sum(Path(path).stat().st_size for path in paths(folder))}


def stopwatch() -> Callable[[int], dict[str, Any]]:
    """Starts now; to be called with the rows that came, for the wall and CPU time of each."""
    cpu, start = cpu_seconds(), time.perf_counter()

    def stop(rows: int) -> dict[str, Any]:
        seconds = time.perf_counter() - start
        return {"seconds_each": seconds / rows, "cpu_each": (cpu_seconds() - cpu) / rows, "rows": rows}

    return stop


def timed(batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Whole passes; what was asked for one batch before has its workers by now."""
    for _ in batches:
        break
    stop = stopwatch()
    return stop(sum(len(batch["id"]) for _ in range(PASSES) for batch in batches))


def paced(batches: Iterable[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    """A part of a pass, from the first batch on: filling a buffer is not counted."""
    iterator = iter(batches)
    next(iterator)
    rows, end, stop = 0, time.perf_counter() + seconds, stopwatch()
    for batch in iterator:
        rows += len(batch["id"])
        if time.perf_counter() > end:
            break
    return stop(rows)


def described(batches: Iterable[Mapping[str, Any]], rows: int) -> dict[str, Any]:
    """What comes first: rows torn apart, rows that come twice, the share of rows in one batch with the next row of
    the files, and how far apart rows are that come one after the other.
    """
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("id", "label", "f0")}
    count = together = 0
    for batch in batches:
        for name, values in parts.items():
            values.append(np.array(batch[name]))
        count += len(batch["id"])
        together += int((np.diff(np.sort(batch["id"])) == 1).sum())
        if count >= rows:
            break
    ids, labels, first = (np.concatenate(values) for values in parts.values())
    torn = int(((labels != ids % 10) | (first != first_value(ids))).sum())
    return {
        "rows": count,
        "torn": torn,
        "twice": count - len(np.unique(ids)),
        "same_batch": together / count,
        "distance": float(np.abs(np.diff(ids)).mean()),
    }
