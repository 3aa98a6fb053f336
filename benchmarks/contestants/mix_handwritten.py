"""The loops an engineer writes by hand: the corpus that lags most gives the next document, or a draw decides."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from .mix_tasks import WEIGHTS, described, timed


def _mixture(first: list[Any], second: list[Any], *, draws: bool) -> Iterator[Any]:
    iterators = [iter(first), iter(second)]
    given = [0, 0]
    generator = random.Random(0)
    while True:
        if draws:
            chosen = 0 if generator.random() < WEIGHTS[0] else 1
        else:
            chosen = 0 if given[0] * WEIGHTS[1] <= given[1] * WEIGHTS[0] else 1
        document = next(iterators[chosen], None)
        if document is None:
            return
        given[chosen] += 1
        yield document


def measure(documents: int, draws: bool) -> dict[str, Any]:
    return timed(partial(_mixture, draws=draws), documents)


def check(documents: int, draws: bool) -> dict[str, Any]:
    return described(partial(_mixture, draws=draws), documents)
