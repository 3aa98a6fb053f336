"""Ours: by turns that are known beforehand, and at random."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import feedpipe as fp

from .mix_tasks import WEIGHTS, described, timed


def _mixture(first: list[Any], second: list[Any], *, draws: bool) -> Iterable[Any]:
    return fp.from_sequence(first).mix(fp.from_sequence(second), weights=WEIGHTS, stop="first", random=draws)


def measure(documents: int, draws: bool) -> dict[str, Any]:
    return timed(partial(_mixture, draws=draws), documents)


def check(documents: int, draws: bool) -> dict[str, Any]:
    return described(partial(_mixture, draws=draws), documents)
