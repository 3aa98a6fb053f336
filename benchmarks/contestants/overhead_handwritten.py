"""The loop an engineer writes by hand: no library, no state, no way to resume.

Two of them. `plain` is the usual text: one function per stage, `randrange` for the swap. `tuned` does
what a profile suggests: built-in `map` and `filter`, the buffer filled at once, and the index of the
swap by `int(random() * n)`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from .tasks import BATCH, BUFFER, described, keep, plus_one, timed


def plain(rows: int, seed: int) -> Iterator[list[int]]:
    def transformed() -> Iterator[int]:
        for x in range(rows):
            y = plus_one(x)
            if keep(y):
                yield y

    def shuffled(source: Iterable[int]) -> Iterator[int]:
        generator = random.Random(seed)
        buffer: list[int] = []
        for x in source:
            if len(buffer) < BUFFER:
                buffer.append(x)
                continue
            at = generator.randrange(BUFFER)
            yield buffer[at]
            buffer[at] = x
        generator.shuffle(buffer)
        yield from buffer

    def batched(source: Iterable[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        for x in source:
            batch.append(x)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    return batched(shuffled(transformed()))


def tuned_rows(rows: int, seed: int) -> Iterator[int]:
    source = filter(keep, map(plus_one, range(rows)))
    generator = random.Random(seed)
    draw = generator.random
    buffer = list(islice(source, BUFFER))
    size = len(buffer)
    for x in source:
        at = int(draw() * size)
        yield buffer[at]
        buffer[at] = x
    generator.shuffle(buffer)
    yield from buffer


def tuned(rows: int, seed: int) -> Iterator[list[int]]:
    def batched(source: Iterator[int]) -> Iterator[list[int]]:
        while batch := list(islice(source, BATCH)):
            yield batch

    return batched(tuned_rows(rows, seed))


_BUILDS = {"plain": plain, "tuned": tuned}


def measure(rows: int, seed: int, loop: str) -> dict[str, Any]:
    return timed(_BUILDS[loop], rows, seed)


def check(rows: int, seed: int, loop: str) -> dict[str, Any]:
    return described(_BUILDS[loop], rows, seed)
