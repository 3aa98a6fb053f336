"""Ours: rows in batches, documents of two columns in packs, and small batches as tensors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

import feedpipe as fp

ROOM = {"inputs": 1024, "targets": 256}
SMALL = 64


def _pairs(count: int) -> fp.Pipe[Any]:
    return fp.from_arrays({"n": np.arange(count)}).shuffle()


def _documents(count: int) -> list[dict[str, Any]]:
    chance = np.random.default_rng(0)
    sizes = zip(chance.integers(20, 600, count).tolist(), chance.integers(5, 150, count).tolist(), strict=True)
    return [{"inputs": np.arange(one, dtype="i4"), "targets": np.arange(other, dtype="i4")} for one, other in sizes]


def _build(way: str, count: int) -> Iterable[Any]:
    match way:
        case "batch":
            return _pairs(count).batch(256)
        case "pack rows":
            return fp.from_sequence(_documents(count)).pack(ROOM, strategy="fit")
        case "pack table":
            rows = _documents(count)
            columns = {name: pa.array([row[name] for row in rows]) for name in ROOM}
            return fp.from_table(pa.table(columns)).pack(ROOM, strategy="fit")
        case _:
            return fp.from_arrays({"x": np.arange(count * SMALL, dtype="f4")}).batch(SMALL).collate()


def measure(way: str, count: int) -> dict[str, Any]:
    """CPU seconds of a pass, for each row, document or batch, after a small pass that is not counted."""
    warnings.simplefilter("ignore", fp.errors.PlanWarning)
    for _ in _build(way, 500):
        pass
    elements = _build(way, count)
    start = time.process_time()
    number = sum(1 for _ in elements)
    seconds = time.process_time() - start
    return {"seconds": seconds, "seconds_each": seconds / count, "elements": number}


def check(way: str, count: int) -> dict[str, Any]:
    warnings.simplefilter("ignore", fp.errors.PlanWarning)
    elements = list(_build(way, count))
    if way.startswith("pack"):
        packed = sum(int(each[f"{name}_segment_ids"].astype(bool).sum()) for each in elements for name in ROOM)
        return {"whole": packed == sum(len(row[name]) for row in _documents(count) for name in ROOM)}
    if way == "collate":
        return {"whole": sum(len(each["x"]) for each in elements) == count * SMALL}
    rows = np.sort(np.concatenate([each["n"] for each in elements]))
    return {"whole": bool((rows == np.arange(count)).all())}
