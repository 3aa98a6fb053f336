"""Batches without a key twice, packs of two columns, and small batches as tensors, by CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import limits_workload

#: By the name of a row: the way, and the most microseconds that a row, a document or a batch may take.
LIMITS: dict[str, tuple[str, float | None]] = {
    "batch(256)": ("batch", None),
    "batch(256, distinct=), a row": ("distinct 256", 1.0),
    "batch(2048, distinct=), a row": ("distinct 2048", 1.0),
    "batch(256, distinct=), a key in 38 % of the rows": ("distinct, frequent", 66.0),
    "pack of two columns, a document of rows": ("pack rows", 20.0),
    "pack of two columns, a document of a table": ("pack table", 20.0),
    "batch(64) and collate, a batch of one column": ("collate", 10.0),
}


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if not found["whole"]:
        return "rows are missing, or came twice"
    return f"{found['twice']} rows have a key that their batch has already" if found["twice"] else None


WORKLOAD = limits_workload(
    "groups",
    "pairs of documents in batches, documents in packs, small batches as tensors, by CPU time",
    LIMITS,
    "us each",
    _check,
)
