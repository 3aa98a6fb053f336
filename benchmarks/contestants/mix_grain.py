"""Grain's `MapDataset.mix`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grain

from .mix_tasks import WEIGHTS, described, timed


def _mixture(first: list[Any], second: list[Any]) -> Iterable[Any]:
    sources = [grain.MapDataset.source(first), grain.MapDataset.source(second)]
    return grain.MapDataset.mix(sources, weights=WEIGHTS).to_iter_dataset()


def measure(documents: int) -> dict[str, Any]:
    return timed(_mixture, documents)


def check(documents: int) -> dict[str, Any]:
    return described(_mixture, documents)
