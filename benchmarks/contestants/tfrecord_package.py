"""The package `tfrecord`, which does not look at checksums."""

from __future__ import annotations

from typing import Any

import tfrecord

from .tfrecord_tasks import KINDS, path, timed


def measure(folder: str, records: int) -> dict[str, Any]:
    return timed(lambda: (row["id"] for row in tfrecord.tfrecord_loader(path(folder), None, KINDS)))


check = measure
