"""Ours: by turns that are known beforehand, at random, and by a schedule of equal weights."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import feedpipe as fp

from .mix_tasks import WEIGHTS, described, timed


def _mixture(first: list[Any], second: list[Any], *, draws: bool, stages: int) -> Iterable[Any]:
    edges = range(0, len(first), max(1, len(first) // stages)) if stages else ()
    weights: Any = dict.fromkeys(edges, WEIGHTS) or WEIGHTS
    return fp.from_sequence(first).mix(fp.from_sequence(second), weights=weights, stop="first", random=draws)


def measure(documents: int, draws: bool, stages: int) -> dict[str, Any]:
    return timed(partial(_mixture, draws=draws, stages=stages), documents)


def check(documents: int, draws: bool, stages: int) -> dict[str, Any]:
    return described(partial(_mixture, draws=draws, stages=stages), documents)
