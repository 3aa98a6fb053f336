"""The TFRecord file that all contestants of `tfrecord` read, and how its records are counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"id": "int", "label": "int", "weights": "float", "tokens": "int", "text": "byte"}
"""The features, by the names that the package `tfrecord` has for their types."""


def path(folder: str) -> str:
    return f"{folder}/part-00000.tfrecord"


def make(folder: str, records: int) -> dict[str, Any]:
    import feedpipe as fp

    generator = np.random.default_rng(0)

    def example(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "label": number % 10,
            "weights": generator.random(8, np.float32),
            "tokens": generator.integers(0, 50_000, int(generator.integers(8, 24))),
            "text": f"record {number} " * 5,
        }

    fp.write_tfrecord(fp.from_sequence(range(records)).map(example), folder, progress=False)
    return {"bytes": Path(path(folder)).stat().st_size}


def timed(start_pass: Callable[[], Iterable[Any]]) -> dict[str, Any]:
    """A pass after one that is not counted, which imports modules; ids come one by one, or in arrays."""
    for _ in start_pass():
        pass
    start = time.perf_counter()
    parts = [np.atleast_1d(each) for each in start_pass()]
    seconds = time.perf_counter() - start
    ids = np.concatenate(parts)
    return {
        "seconds_each": seconds / len(ids),
        "complete": bool((np.sort(ids) == np.arange(len(ids))).all()),
        "records_read": len(ids),
    }
