"""Ours, with many inputs: in the middle of long ones, and until short ones have ended."""

from __future__ import annotations

import itertools
import time
from typing import Any

import feedpipe as fp

LONG = 1_000
SHORT = 10
#: Rows of each long input that come before the first that is measured, while its blocks grow, and that are measured.
BEFORE, MEASURED = 75, 512


def _keep(row: int) -> bool:
    return row >= 0


def _mixture(inputs: int, rows: int) -> fp.Pipe[int]:
    first, *others = (fp.from_sequence(range(rows)).filter(_keep) for _ in range(inputs))
    return first.mix(*others)


def measure(documents: int, inputs: int, ends: bool) -> dict[str, Any]:
    """CPU seconds a row: of the same rows of each input, or of whole passes."""
    rows, seconds = 0, 0.0
    while rows < documents // 5:
        stream = iter(_mixture(inputs, SHORT if ends else LONG))
        for _ in itertools.islice(stream, 0 if ends else BEFORE * inputs):
            pass
        start = time.process_time()
        rows += sum(1 for _ in itertools.islice(stream, None if ends else MEASURED * inputs))
        seconds += time.process_time() - start
    return {"seconds": seconds, "seconds_each": seconds / rows, "rows": rows}


def check(documents: int, inputs: int, ends: bool) -> dict[str, Any]:
    found = list(itertools.islice(_mixture(inputs, SHORT if ends else LONG), SHORT * inputs))
    return {"in_turn": sorted(found) == sorted(list(range(SHORT)) * inputs)}
