"""`cut_tables`: the rows of a run as tables, each of which becomes a row group or a record batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def cut_tables(
    batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int, rows_per_file: int | None
) -> Iterator[pa.Table]:
    """Cuts the rows into tables of at most so many rows and bytes, none of which crosses the end of a file."""
    import pyarrow as pa

    parts: list[pa.RecordBatch] = []
    rows = size = 0
    left = rows_per_file  # of this file
    for batch in batches:
        rest = batch
        while len(rest):
            room = max_rows - rows if left is None else min(max_rows, left) - rows
            part = rest[:room]
            rest = rest[room:]
            parts.append(part)
            rows += len(part)
            size += part.nbytes
            if len(part) == room or size >= max_bytes:
                yield pa.Table.from_batches(parts)
                if left is not None:
                    left = left - rows or rows_per_file
                parts, rows, size = [], 0, 0
    if parts:
        yield pa.Table.from_batches(parts)
