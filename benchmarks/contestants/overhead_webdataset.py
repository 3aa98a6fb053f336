"""WebDataset: its own pipeline of filters, over a source in memory instead of tar files."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import webdataset as wds

from .tasks import BATCH, BUFFER, described, keep, plus_one, timed


def build(rows: int, seed: int) -> Iterable[list[int]]:
    def source() -> Iterator[int]:
        yield from range(rows)

    pipeline: Iterable[list[int]] = wds.DataPipeline(
        source,
        wds.map(plus_one),
        wds.select(keep),
        wds.shuffle(bufsize=BUFFER, initial=BUFFER, rng=random.Random(seed)),
        wds.batched(BATCH, collation_fn=None, partial=True),
    )
    return pipeline


def measure(rows: int, seed: int) -> dict[str, Any]:
    return timed(build, rows, seed)


def check(rows: int, seed: int) -> dict[str, Any]:
    return described(build, rows, seed)
