"""Arrow data that crosses from one process to another: in Arrow's stream format, written straight to its place.

Arrow's own pickling would send the whole table that a slice was cut from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

# Of these Arrow writes all the text that a slice was cut from, unless it is turned into the other kind and back.
_VIEWS: dict[Any, Any] = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


class ArrowStream:
    """Record batches of one schema, to be written as a stream of `nbytes` bytes."""

    __slots__ = ("_batches", "_schema", "nbytes")

    def __init__(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = [_cut(batch) for batch in batches]
        counter = pa.MockOutputStream()
        self._write(counter)
        self.nbytes: int = counter.size()

    def write(self, target: memoryview) -> None:
        self._write(pa.FixedSizeBufferWriter(pa.py_buffer(target)))

    def _write(self, sink: pa.NativeFile) -> None:
        with pa.ipc.new_stream(sink, self._schema) as writer:
            for batch in self._batches:
                writer.write_batch(batch)


def reducer(place: Callable[[ArrowStream], tuple[object, ...]]) -> Callable[[Any], tuple[object, ...]]:
    """What a pickler calls for all that Arrow holds; `place` keeps a stream and says where it will be."""

    def reduce(data: Any) -> tuple[object, ...]:
        if isinstance(data, pa.RecordBatch):
            return batch_at, place(ArrowStream(data.schema, [data]))
        if isinstance(data, pa.Table):
            return table_at, place(ArrowStream(data.schema, data.to_batches()))
        if isinstance(data, pa.ChunkedArray):
            table = pa.Table.from_arrays([data], [""])
            return chunked_at, place(ArrowStream(table.schema, table.to_batches()))
        batch = pa.RecordBatch.from_arrays([data], [""])
        return array_at, place(ArrowStream(batch.schema, [batch]))

    return reduce


def batch_at(memory: memoryview, start: int, size: int) -> pa.RecordBatch:
    """The one batch of the stream at `start`; its columns are views of `memory`, and so they are below."""
    return _opened(memory, start, size).read_next_batch()


def table_at(memory: memoryview, start: int, size: int) -> pa.Table:
    return _opened(memory, start, size).read_all()


def chunked_at(memory: memoryview, start: int, size: int) -> pa.ChunkedArray[Any]:
    return table_at(memory, start, size).column(0)


def array_at(memory: memoryview, start: int, size: int) -> pa.Array[Any]:
    return batch_at(memory, start, size).column(0)


def _opened(memory: memoryview, start: int, size: int) -> pa.RecordBatchStreamReader:
    return pa.ipc.open_stream(pa.py_buffer(memory[start : start + size]))


def _cut(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with no more text than it shows."""
    if not any(kind in _VIEWS for kind in batch.schema.types):
        return batch
    columns = [_cut_view(column) if column.type in _VIEWS else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _cut_view(column: Any) -> Any:
    views = column.buffers()[1]  # of 16 bytes each, before the buffers with the text
    if views is None or views.size < 32 * len(column):
        return column
    return column.cast(_VIEWS[column.type]).cast(column.type)
