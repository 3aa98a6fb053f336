"""How Arrow data travels to another process: in Arrow's stream format, written directly to its place.

Arrow's own pickling would send the whole table that a slice was cut from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.lazy import pa

# Of a slice of these types, Arrow writes the text of the whole array. A cast to the other type and back cuts it.
_VIEW_TYPES: dict[Any, Any] = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


class BatchStream:
    """Record batches of one schema, to be written as a stream of `nbytes` bytes."""

    __slots__ = ("_batches", "_schema", "nbytes")

    def __init__(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = [_slice(batch) for batch in batches]
        counter = pa.MockOutputStream()
        self._write(counter)
        self.nbytes: int = counter.size()

    def write(self, target: memoryview) -> None:
        self._write(pa.FixedSizeBufferWriter(pa.py_buffer(target)))

    def _write(self, sink: pa.NativeFile) -> None:
        with pa.ipc.new_stream(sink, self._schema) as writer:
            for batch in self._batches:
                writer.write_batch(batch)


def reducer(add: Callable[[BatchStream], tuple[object, ...]]) -> Callable[[Any], tuple[object, ...]]:
    """A pickle reducer for all Arrow data; `add` keeps a stream and returns the arguments to read it with."""

    def reduce(data: Any) -> tuple[object, ...]:
        if isinstance(data, pa.RecordBatch):
            return read_batch, add(BatchStream(data.schema, [data]))
        if isinstance(data, pa.Table):
            return read_table, add(BatchStream(data.schema, data.to_batches()))
        if isinstance(data, pa.ChunkedArray):
            table = pa.Table.from_arrays([data], [""])
            return read_chunked_array, add(BatchStream(table.schema, table.to_batches()))
        batch = pa.RecordBatch.from_arrays([data], [""])
        return read_array, add(BatchStream(batch.schema, [batch]))

    return reduce


def read_batch(memory: memoryview, start: int, size: int) -> pa.RecordBatch:
    """The only batch of the stream at `start`; like those of the functions below, its columns are views of `memory`."""
    return _open_stream(memory, start, size).read_next_batch()


def read_table(memory: memoryview, start: int, size: int) -> pa.Table:
    return _open_stream(memory, start, size).read_all()


def read_chunked_array(memory: memoryview, start: int, size: int) -> pa.ChunkedArray[Any]:
    return read_table(memory, start, size).column(0)


def read_array(memory: memoryview, start: int, size: int) -> pa.Array[Any]:
    return read_batch(memory, start, size).column(0)


def _open_stream(memory: memoryview, start: int, size: int) -> pa.RecordBatchStreamReader:
    return pa.ipc.open_stream(pa.py_buffer(memory[start : start + size]))


def _slice(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without text that it does not show."""
    if not any(kind in _VIEW_TYPES for kind in batch.schema.types):
        return batch
    columns = [_slice_view(column) if column.type in _VIEW_TYPES else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _slice_view(column: Any) -> Any:
    views = column.buffers()[1]  # 16 bytes per value; the buffers with the text follow
    if views is None or views.size < 32 * len(column):
        return column
    return column.cast(_VIEW_TYPES[column.type]).cast(column.type)
