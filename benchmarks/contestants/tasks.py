"""The work that all contestants of `overhead` do, and how one pass is timed.

    range(rows).map(plus_one).filter(keep).shuffle(window=10_000).batch(256)

A contestant hands in `build(rows, seed)`, which makes everything that can be made beforehand and
returns what one pass iterates over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from operator import eq
from typing import Any

WINDOW = 10_000
BUFFER = WINDOW // 2  # of a reservoir, which shuffles as deeply: as many neighbours stay in one batch
BATCH = 256
WARM_UP = 20_000

Build = Callable[[int, int], Iterable[Sequence[int]]]


def plus_one(x: int) -> int:
    return x + 1


def keep(x: int) -> bool:
    return x % 3 != 0


def timed(build: Build, rows: int, seed: int) -> dict[str, Any]:
    """One whole pass, from `iter` to the last batch, after a small one that is not counted."""
    for _ in build(WARM_UP, seed):
        pass
    batches = build(rows, seed)
    count = 0
    start = time.perf_counter()
    for batch in batches:
        count += len(batch)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows_in": rows, "rows_out": count}


def described(build: Build, rows: int, seed: int) -> dict[str, Any]:
    """What one pass hands out, so that all contestants are known to do the same work."""
    sizes: list[int] = []
    seen: list[int] = []
    for batch in build(rows, seed):
        sizes.append(len(batch))
        seen.extend(batch)
    ordered = sorted(seen)
    rank = {value: index for index, value in enumerate(ordered)}
    moves = [abs(rank[value] - index) for index, value in enumerate(seen)]
    together = [index // BATCH for index in sorted(range(len(seen)), key=seen.__getitem__)]
    again = [value for batch in build(rows, seed) for value in batch]
    other = [value for batch in build(rows, seed + 1) for value in batch]
    return {
        "count": len(seen),
        "sum": sum(seen),
        "distinct": len(rank),
        "full_batches": sum(size == BATCH for size in sizes),
        "largest_batch": max(sizes),
        "mean_move": sum(moves) / max(1, len(moves)),
        "same_batch": sum(map(eq, together, together[1:])) / max(1, len(together) - 1),
        "in_place": sum(move == 0 for move in moves),
        "same_seed_same_order": again == seen,
        "other_seed_other_order": other != seen,
    }
