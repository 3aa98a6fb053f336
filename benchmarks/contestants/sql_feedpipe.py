"""Ours: ranges of the primary key, as tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import feedpipe as fp

from .sql_tasks import BATCH, described, query, timed

SERVICES = {"process": fp.InProcess, "threads": lambda: fp.Threads(2), "workers": lambda: fp.MultiProcess(2)}


def read(uri: str, rows: int, service: str) -> Iterator[Any]:
    pipe = fp.read_sql(query(rows), uri, partition_on="id").batch(BATCH).collate()
    with fp.Loader(pipe, SERVICES[service]()) as loader:
        yield from loader


def measure(uri: str, rows: int, service: str) -> dict[str, Any]:
    return timed(lambda: read(uri, rows, service))


def check(uri: str, rows: int, service: str) -> dict[str, Any]:
    return described(read(uri, rows, service))
