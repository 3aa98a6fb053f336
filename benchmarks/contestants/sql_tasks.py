"""The table that all contestants of `sql` read, and how a pass over it is timed.

Each gives batches of tensors. A pass begins before the first connection, in a process that has imported torch.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import numpy as np
import torch

BATCH = 4096
COLUMNS = ("id", "f0", "f1", "f2", "f3", "f4", "label", "number")
TABLE = (
    "CREATE TABLE points AS SELECT i AS id, i / 2.0::float8 AS f0, random() AS f1, random() AS f2, random() AS f3, "
    "random()::real AS f4, (i % 10)::int AS label, i * 7919 % 1000003 AS number "
    "FROM generate_series(0::bigint, {} - 1) AS i"
)

Batches = Iterable[Mapping[str, Any]]


def query(rows: int) -> str:
    return f"SELECT * FROM points WHERE id < {rows}"


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Tensors that may be written, as a training gets them; so a view of an Arrow column is copied."""
    return {name: torch.from_numpy(np.require(array, requirements="W")) for name, array in arrays.items()}


def in_connections(part: Callable[[int, int], Batches], rows: int, connections: int) -> Iterator[Mapping[str, Any]]:
    """The batches of all parts of the ids, each of which a thread reads."""
    if connections == 1:
        yield from part(0, rows)
        return
    batches: Queue[Mapping[str, Any] | None] = Queue(connections)

    def run(first: int, stop: int) -> None:
        try:
            for batch in part(first, stop):
                batches.put(batch)
        finally:
            batches.put(None)

    with ThreadPoolExecutor(connections) as pool:
        each = -(-rows // connections)
        runs = [pool.submit(run, first, min(first + each, rows)) for first in range(0, rows, each)]
        for _ in runs:
            yield from iter(batches.get, None)
        for done in runs:
            done.result()


def timed(read: Callable[[], Batches]) -> dict[str, Any]:
    start = time.perf_counter()
    rows = sum(len(batch["id"]) for batch in read())
    seconds = time.perf_counter() - start
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(process).ru_maxrss for process in processes) / 1024
    return {"seconds_each": seconds / rows, "rows": rows, "peak": peak}


def described(batches: Batches) -> dict[str, Any]:
    ids = torn = count = 0
    for batch in batches:
        count += len(batch["id"])
        ids += int(batch["id"].sum())
        torn += int((batch["f0"] * 2 != batch["id"]).sum()) + int((batch["label"] != batch["id"] % 10).sum())
        assert set(batch) == set(COLUMNS)
    return {"rows": count, "ids": ids, "torn": torn}
