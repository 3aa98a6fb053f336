"""Ours: read, shuffle in a window, batch, collate."""

from __future__ import annotations

from typing import Any

import feedpipe as fp

from .parquet_tasks import BATCH, WINDOW, described, paths, timed


def loader(folder: str, workers: int) -> fp.Loader[Any]:
    return fp.Loader(fp.read_parquet(paths(folder)).shuffle(window=WINDOW).batch(BATCH).collate(), workers=workers)


def measure(folder: str, rows: int, seconds: float, workers: int) -> dict[str, Any]:
    with loader(folder, workers) as batches:
        return timed(batches)


def check(folder: str, rows: int, seconds: float, workers: int) -> dict[str, Any]:
    with loader(folder, workers) as batches:
        return described(batches, rows)
