"""Random plans for many ranks: together they give every row once, and each as many elements as `len` says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import PlanError

from ..soak import SOAK
from ..support.loading import MAX_DROPPED

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")

WORLD_SIZES = [2, 3, 7, 64] if SOAK == 1 else [3, 64, 333, 1024]

Chain = fp.Pipe[Any]

CHAINS: dict[str, Callable[[Chain], Chain]] = {
    "in order": lambda pipe: pipe,
    "indexed shuffle": lambda pipe: pipe.load().shuffle(),
    "window": lambda pipe: pipe.shuffle(window=20),
    "batches of a window": lambda pipe: pipe.shuffle(window=9).batch(4),
    "rounds": lambda pipe: pipe.repeat(2).shuffle(window=20),
    "rounds of a shuffle": lambda pipe: pipe.shuffle(window=20).repeat(3),
    "two sources": lambda pipe: pipe.concat(fp.from_sequence([{"x": -number} for number in range(1, 50)])),
}


def uneven_row_groups(folder: Path, chance: random.Random) -> Chain:
    """A Parquet file whose row groups have between one row and a hundred, or a thousand for very many ranks."""
    first, fields = 0, pa.schema({"x": pa.int64()})
    with pq.ParquetWriter(folder / "rows.parquet", fields) as writer:
        for _ in range(chance.randrange(1, 60)):
            count = chance.choice([1, 2, 10, 100, *([1000] * (SOAK > 1))])
            writer.write_table(pa.table({"x": range(first, first + count)}, fields))
            first += count
    return fp.read_parquet(folder / "rows.parquet")


def numbers(elements: Iterable[Any]) -> Iterator[int]:
    for element in elements:
        yield from (row["x"] for row in ([element] if isinstance(element, dict) else element))


@pytest.mark.parametrize("turn", range(SOAK))
@pytest.mark.parametrize("chain", CHAINS)
def test_many_ranks(chain: str, turn: int, tmp_path: Path) -> None:
    chance = random.Random(f"{chain} {turn}")
    pipe = CHAINS[chain](uneven_row_groups(tmp_path, chance))
    world_size, seed = chance.choice(WORLD_SIZES), chance.randrange(100)
    rows: Counter[int] = Counter()
    counts: list[int] = []
    for rank in range(world_size):
        elements = list(fp.Loader(pipe, rank=rank, world_size=world_size, even=None, seed=seed))
        rows.update(numbers(elements))
        counts.append(len(elements))
    assert rows == Counter(numbers(pipe))

    for epoch in range(2):
        lengths: set[int | None] = set()
        for rank in chance.sample(range(world_size), min(4, world_size)):
            loader = fp.Loader(pipe, rank=rank, world_size=world_size, even="drop", seed=seed)
            loader.set_epoch(epoch)
            try:
                lengths |= {len(loader), sum(1 for _ in loader)}
            except PlanError:
                lengths.add(None)
        assert len(lengths) == 1, "all ranks have as many elements, or all refuse the plan"
        if epoch == 0:
            assert lengths == {None if is_too_uneven(counts) else min(counts)}


def is_too_uneven(counts: list[int]) -> bool:
    """Whether a rank has no element, or more than a fifth of all would be left out."""
    dropped = sum(counts) - min(counts) * len(counts)
    return min(counts) == 0 or (max(counts) - min(counts) > 1 and dropped > MAX_DROPPED * sum(counts))
