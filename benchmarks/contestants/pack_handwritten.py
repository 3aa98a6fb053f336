"""The loop an engineer writes by hand: it fills one pack after the other with slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .pack_tasks import LENGTH, described, timed


def _empty() -> dict[str, Any]:
    return {name: np.zeros(LENGTH, np.int32) for name in ("tokens", "segment_ids", "position_ids")}


def _packs(documents: list[Any]) -> Iterator[dict[str, Any]]:
    pack, filled, segment = _empty(), 0, 0
    for document in documents:
        used = 0
        while used < len(document):
            count = min(LENGTH - filled, len(document) - used)
            segment += 1
            pack["tokens"][filled : filled + count] = document[used : used + count]
            pack["segment_ids"][filled : filled + count] = segment
            pack["position_ids"][filled : filled + count] = np.arange(used, used + count)
            filled += count
            used += count
            if filled == LENGTH:
                yield pack
                pack, filled, segment = _empty(), 0, 0
    if filled:
        yield pack


def measure(documents: int) -> dict[str, Any]:
    return timed(_packs, documents)


def check(documents: int) -> dict[str, Any]:
    return described(_packs, documents)
