"""Small things between Arrow and the formats."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, cast

from ..rows import Rows
from .chunks import LONGEST

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = 2**20
"""Bytes of the first file from which names and types are inferred."""
ONE_BLOCK = 2 * LONGEST
"""Arrow's block size: whatever chunk there is fits, for chunks are cut already."""


def source(data: bytes) -> IO[bytes]:
    """What Arrow's readers read from, without a copy."""
    import pyarrow as pa

    return cast("IO[bytes]", pa.BufferReader(data))


def as_rows(table: pa.Table) -> Rows:
    """The columns of a table as they are."""
    columns = {name: _one(table.column(i)) for i, name in enumerate(table.column_names)}
    return Rows(columns, table.num_rows)


def _one(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return cast("pa.Array[Any]", column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
