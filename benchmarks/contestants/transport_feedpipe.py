"""Ours: the elements of a `map`, or of a `collate`, from worker processes; `workers=0` says what making them costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import feedpipe as fp

from .transport_tasks import BATCH, ROWS, WORKS, described, paced


def elements(work: str, workers: int) -> Iterator[Any]:
    pipe: fp.Pipe[Any] = fp.from_sequence(range(ROWS)).map(WORKS[work])
    if work == "sample":
        pipe = pipe.batch(BATCH).collate()
    with fp.Loader(pipe, workers=workers) as loader:
        yield from loader


def measure(seconds: float, work: str, workers: int) -> dict[str, float]:
    return paced(elements(work, workers), seconds)


def check(seconds: float, work: str, workers: int) -> dict[str, int]:
    return described(elements(work, workers), work)
