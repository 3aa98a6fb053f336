"""Ours: read, shuffle in a window or not, batch, collate; in each service."""

from __future__ import annotations

from typing import Any

import feedpipe as fp

from .parquet_tasks import BATCH, WINDOW, described, paths, timed


def loader(folder: str, service: str, workers: int, shuffled: bool) -> fp.Loader[Any]:
    pipe = fp.read_parquet(paths(folder))
    if shuffled:
        pipe = pipe.shuffle(window=WINDOW)
    services = {"InProcess": fp.InProcess, "Threads": lambda: fp.Threads(workers)}
    place = services.get(service, lambda: fp.MultiProcess(workers))()
    return fp.Loader(pipe.batch(BATCH).collate(), place)


def measure(folder: str, rows: int, seconds: float, **place: Any) -> dict[str, Any]:
    with loader(folder, **place) as batches:
        return timed(batches)


def check(folder: str, rows: int, seconds: float, **place: Any) -> dict[str, Any]:
    with loader(folder, **place) as batches:
        return described(batches, rows)
