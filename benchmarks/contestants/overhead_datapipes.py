"""torchdata 0.9 DataPipes, the last release that had them, iterated without DataLoader2."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

warnings.simplefilter("ignore")  # torchdata 0.9 announces its own deprecation at import

from torchdata.datapipes.iter import IterableWrapper  # noqa: E402

from .tasks import BATCH, BUFFER, described, keep, plus_one, timed  # noqa: E402


def build(rows: int, seed: int) -> Iterable[list[int]]:
    return (
        IterableWrapper(range(rows), deepcopy=False)
        .map(plus_one)
        .filter(keep)
        .shuffle(buffer_size=BUFFER)
        .set_seed(seed)
        .batch(BATCH)
    )


def measure(rows: int, seed: int) -> dict[str, Any]:
    return timed(build, rows, seed)


def check(rows: int, seed: int) -> dict[str, Any]:
    return described(build, rows, seed)
