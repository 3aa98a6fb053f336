"""Small conversions between Arrow and the formats, and the errors of reading with Arrow."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from ...core.column import Column
from ...core.rows import Rows
from ...errors import DataError, FeedpipeError, SourceError
from ..text.chunks import MAX_RECORD_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

HEAD_BYTES = 2**20
"""Bytes of a text file from which names and types are inferred."""
BLOCK_BYTES = 2 * MAX_RECORD_BYTES
"""Arrow's block size: larger than every chunk, since chunks already end where a record ends."""


def arrow_source(data: bytes) -> IO[bytes]:
    """Wrap bytes for Arrow's readers, without a copy."""
    import pyarrow as pa

    return cast("IO[bytes]", pa.BufferReader(data))


def to_rows(table: pa.Table) -> Rows:
    """The columns of a table, each as one array."""
    columns = {name: _contiguous(table.column(i)) for i, name in enumerate(table.column_names)}
    return Rows(columns, table.num_rows)


def to_column(array: Any) -> Column:
    """Numbers without nulls as a NumPy array, whose gathers (as in a shuffle) are faster; others as they are."""
    import pyarrow as pa

    if array.null_count == 0 and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        kind: np.dtype[Any] = np.dtype(cast("Any", array.type.to_pandas_dtype()))
        if not len(array):
            return np.empty(0, kind)
        # `to_numpy` returns the same, but imports pandas if it is installed, in each worker.
        column = np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)
        column.flags.writeable = False
        return column
    return cast("Column", array)


def arrow_errors() -> tuple[type[Exception], ...]:
    """The exceptions that pyarrow raises for bytes that are damaged or cannot be read."""
    import pyarrow as pa

    return pa.ArrowException, OSError, ValueError, MemoryError, KeyError, TypeError, IndexError, OverflowError


def read_error(error: Exception, name: str) -> FeedpipeError:
    """Translate an error of reading the file or part `name`.

    Args:
        error: one of `arrow_errors()`, but none of feedpipe's own.
        name: the name of the file, or of a part of it.
    """
    if isinstance(error, OSError) and error.errno:
        return SourceError(f"{name} cannot be read: {error.strerror or error}")
    message = " ".join(str(error).split())
    if "crypt" in message:
        return DataError(f"{name} is encrypted, and cannot be read without a key: {message}; decrypt the file first")
    return DataError(f"{name} is damaged, or has changed while it was read: {message}")


def _contiguous(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return cast("pa.Array[Any]", column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
