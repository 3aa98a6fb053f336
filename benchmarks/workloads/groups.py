"""Batches, packs of two columns, and small batches as tensors, by CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import limits_workload

#: By the name of a row: the way, and the most microseconds that a row, a document or a batch may take.
LIMITS: dict[str, tuple[str, float | None]] = {
    "batch(256)": ("batch", None),
    "pack of two columns, a document of rows": ("pack rows", 20.0),
    "pack of two columns, a document of a table": ("pack table", 20.0),
    "batch(64) and collate, a batch of one column": ("collate", 10.0),
}


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    return None if found["whole"] else "rows are missing, or came twice"


WORKLOAD = limits_workload(
    "groups",
    "rows in batches, documents in packs, small batches as tensors, by CPU time",
    LIMITS,
    "us each",
    _check,
)
