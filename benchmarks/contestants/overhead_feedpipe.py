"""Ours: the same chain, iterated plainly and through the Loader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import feedpipe as fp

from .tasks import BATCH, WINDOW, described, keep, plus_one, timed


def chain(rows: int, shuffle_seed: int | None = None) -> fp.Pipe[Sequence[int]]:
    return (
        fp.from_sequence(range(rows)).map(plus_one).filter(keep).shuffle(window=WINDOW, seed=shuffle_seed).batch(BATCH)
    )


def plain(rows: int, seed: int) -> Iterable[Sequence[int]]:
    return chain(rows, seed)


def loader(rows: int, seed: int) -> Iterable[Sequence[int]]:
    return fp.Loader(chain(rows), seed=seed)


_BUILDS = {"plain": plain, "loader": loader}


def measure(rows: int, seed: int, way: str) -> dict[str, Any]:
    return timed(_BUILDS[way], rows, seed)


def check(rows: int, seed: int, way: str) -> dict[str, Any]:
    return described(_BUILDS[way], rows, seed)
