"""Ours: records as rows, or as batches of tensors."""

from __future__ import annotations

from typing import Any

import feedpipe as fp

from .tfrecord_tasks import path, timed

BATCH = 256


def measure(folder: str, records: int, batched: bool) -> dict[str, Any]:
    pipe = fp.read_tfrecord(path(folder))
    with fp.Loader(pipe.batch(BATCH) if batched else pipe) as loader:
        return timed(lambda: (each["id"] for each in loader))


check = measure
