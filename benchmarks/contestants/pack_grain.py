"""Grain's `ConcatThenSplitIterDataset`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grain

from .pack_tasks import LENGTH, described, timed


def _packs(documents: list[Any]) -> Iterable[Any]:
    rows = grain.MapDataset.source(documents).map(lambda document: {"tokens": document}).to_iter_dataset()
    return grain.experimental.ConcatThenSplitIterDataset(rows, length_struct={"tokens": LENGTH})


def measure(documents: int) -> dict[str, Any]:
    return timed(_packs, documents)


def check(documents: int) -> dict[str, Any]:
    return described(_packs, documents)
