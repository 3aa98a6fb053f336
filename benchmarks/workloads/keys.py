"""Windows of series, folds whose groups stay whole, and duplicates left out, by CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import limits_workload

#: By the name of a row: the way, and the most microseconds that a row of the input may take.
LIMITS: dict[str, tuple[str, float | None]] = {
    "sliding(24)": ("windows, no key", None),
    "sliding(24, key=), series one after the other": ("windows", 5.8),
    "sliding(24, key=), series in turn": ("windows, interleaved", 8.4),
    "sliding(24, key=), streamed": ("windows, streamed", 7.2),
    "split(5, key=, stratify=), ten rows a group": ("folds", 3.4),
    "distinct of integers": ("distinct", 0.36),
    "distinct of texts of 35 characters": ("distinct text", 0.86),
}


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    return None if found["right"] else "windows, sizes of folds, or the number of keys are wrong"


WORKLOAD = limits_workload(
    "keys",
    "windows of series, folds of groups, duplicates left out: CPU time of a row of the input",
    LIMITS,
    "us a row",
    _check,
)
