"""Ours: `map(concurrency=n)`, by position and as a stream."""

from __future__ import annotations

from typing import Any

import feedpipe as fp

from .concurrency_tasks import timed, wait


def measure(rows: int, threads: int, streamed: bool) -> dict[str, Any]:
    source = fp.from_iterable(range(rows)) if streamed else fp.from_sequence(range(rows))
    return timed(lambda: fp.Loader(source.map(wait, concurrency=threads)), rows, threads)
