"""Ours: windows of series, folds of groups, and duplicates left out."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

import feedpipe as fp

SIZE = 24
SERIES = 500
PARTS = 5


def _table(way: str, count: int) -> fp.Pipe[Any]:
    n = np.arange(count)
    if way.startswith("windows"):
        series = n % SERIES if "interleaved" in way else n // max(SIZE, count // SERIES)
        rows = fp.from_arrays({"series": series, "n": n})
        return rows.filter(_keep) if "streamed" in way else rows
    if way == "folds":
        chance = np.random.default_rng(0)
        groups, labels = chance.integers(0, max(PARTS, count // 10), count), chance.integers(0, 10, count)
        return fp.from_arrays({"group": groups, "label": labels})
    keys = np.random.default_rng(0).integers(0, count, count)
    if way == "distinct text":
        return fp.from_table(pa.table({"key": [f"https://example.org/page/{key:010d}" for key in keys.tolist()]}))
    return fp.from_arrays({"key": keys})


def _keep(row: object) -> bool:
    return True


def _rows(way: str, table: fp.Pipe[Any]) -> list[Any]:
    """The windows, the folds, or the rows whose number is known once the keys are read."""
    if way == "windows, no key":
        return list(table.sliding(SIZE))
    if way.startswith("windows"):
        return list(table.sliding(SIZE, key="series"))
    if way == "folds":
        folds = table.split(PARTS, key="group", stratify="label")
        return [len(folds[k]) for k in folds]
    return [len(table.distinct("key"))]


def measure(way: str, count: int) -> dict[str, Any]:
    """CPU seconds of a pass, for each row of the input, after a small pass that is not counted."""
    _rows(way, _table(way, 2_000))
    table = _table(way, count)
    start = time.process_time()
    _rows(way, table)
    seconds = time.process_time() - start
    return {"seconds": seconds, "seconds_each": seconds / count}


def check(way: str, count: int) -> dict[str, Any]:
    table = _table(way, count)
    found = _rows(way, table)
    if way.startswith("windows"):
        one = found[len(found) // 2]
        return {"right": len(one) == SIZE and (way == "windows, no key" or len(set(one["series"])) == 1)}
    if way == "folds":
        return {"right": sum(found) == count and max(found) - min(found) <= count // 50}
    return {"right": found[0] == len({row["key"] for row in table})}
