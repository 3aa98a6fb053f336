"""Shards of a process that share a stream read it about once, from whatever state they go on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice

import pytest

import feedpipe as fp

ROWS = 30_000


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_read_few_times_after_a_resume(seed: int) -> None:
    chance = random.Random(seed)
    runs, read = 0, 0

    def numbers() -> Iterator[int]:
        nonlocal runs, read
        runs += 1
        for number in range(ROWS):
            read += 1
            yield number

    pipe = fp.from_iterable(numbers).shuffle(window=chance.choice([4, 16, 100])).batch(chance.choice([1, 4, 7]))
    shards = chance.choice([2, 5, 8])
    first = fp.Loader(pipe, seed=seed, shards=shards)
    before = chance.randint(1, 500)
    taken = [row for batch in islice(first, before) for row in batch]
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    runs = read = 0
    with fp.Loader(pipe, seed=seed, shards=shards) as second:
        second.load_state_dict(state)
        rest = [row for batch in second for row in batch]
    assert sorted(taken + rest) == list(range(ROWS))
    assert runs <= 3 and read <= 3 * ROWS
