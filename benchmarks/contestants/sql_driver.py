"""The ADBC driver that ours uses, alone: what it decodes, as tensors of its own batches. It cannot resume."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from adbc_driver_postgresql import dbapi

from .sql_tasks import described, in_connections, query, tensors, timed


def read(uri: str, rows: int, connections: int) -> Iterator[Any]:
    def part(first: int, stop: int) -> Iterator[Any]:
        with closing(dbapi.connect(uri)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"{query(stop)} AND id >= {first}")
            for batch in cursor.fetch_record_batch():
                yield tensors({name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names})

    return in_connections(part, rows, connections)


def measure(uri: str, rows: int, connections: int) -> dict[str, Any]:
    return timed(lambda: read(uri, rows, connections))


def check(uri: str, rows: int, connections: int) -> dict[str, Any]:
    return described(read(uri, rows, connections))
