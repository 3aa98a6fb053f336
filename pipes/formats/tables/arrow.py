"""Small things between Arrow and the formats."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, cast

from ...core.rows import Column, Rows
from ...errors import DataError, FeedpipeError, SourceError
from ..text.chunks import LONGEST

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


def as_column(array: Any) -> Column:
    """Numbers without nulls as NumPy's: its gathers, which a shuffle is made of, are faster."""
    import pyarrow as pa

    if array.null_count == 0 and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return cast("Column", array.to_numpy(zero_copy_only=True))
    return cast("Column", array)


def failures() -> tuple[type[Exception], ...]:
    """What pyarrow raises at bytes that are not what they should be, or cannot be had."""
    import pyarrow as pa

    return pa.ArrowException, OSError, ValueError, MemoryError, KeyError, TypeError, IndexError, OverflowError


def broken(error: Exception, what: str) -> FeedpipeError:
    """The error of this tree for one of reading `what`."""
    if isinstance(error, FeedpipeError):
        return error
    if isinstance(error, OSError) and error.errno:
        return SourceError(f"{what} cannot be read: {error.strerror or error}")
    said = " ".join(str(error).split())
    if "crypt" in said:
        return DataError(f"{what} is encrypted, and cannot be read without a key: {said}; decrypt the file before")
    return DataError(f"{what} is damaged, or has changed while it was read: {said}")


def _one(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return cast("pa.Array[Any]", column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
