"""Ours: ranges of the primary key, as tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch  # noqa: F401, before the clock starts, as in a training

import feedpipe as fp

from .sql_tasks import BATCH, described, query, timed


def read(uri: str, rows: int, workers: int) -> Iterator[Any]:
    pipe = fp.read_sql(query(rows), uri, partition_on="id").batch(BATCH).collate()
    with fp.Loader(pipe, workers=workers) as loader:
        yield from loader


def measure(uri: str, rows: int, workers: int) -> dict[str, Any]:
    return timed(lambda: read(uri, rows, workers))


def check(uri: str, rows: int, workers: int) -> dict[str, Any]:
    return described(read(uri, rows, workers))
