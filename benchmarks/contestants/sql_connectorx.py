"""connectorx: the whole result as an Arrow table in memory, then batches of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import connectorx

from .sql_tasks import BATCH, described, query, tensors, timed


def read(uri: str, rows: int, connections: int) -> Iterator[Any]:
    division = {"partition_on": "id", "partition_num": connections} if connections > 1 else {}
    table = connectorx.read_sql(uri, query(rows), return_type="arrow", **division)
    for batch in table.to_batches(max_chunksize=BATCH):
        yield tensors({name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names})


def measure(uri: str, rows: int, connections: int) -> dict[str, Any]:
    return timed(lambda: read(uri, rows, connections))


def check(uri: str, rows: int, connections: int) -> dict[str, Any]:
    return described(read(uri, rows, connections))
