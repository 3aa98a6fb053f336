"""Rows of Arrow files by position: the files that a process has open, and the batches that it keeps."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa

from ..core.rows import Indices, Rows
from ..formats.chunked import ChunkedTable, ColumnWindow, column_window, take_rows
from ..formats.table_format import FixedSchema
from ..storage.mapping import local_path, room_for_mappings
from .arrow_batches import RecordBatch, arrow_file_cache
from .arrow_file import ArrowFile
from .arrow_ipc import ArrowIpc

MAX_KEPT_BYTES = 2**28
"""The batches that a process keeps: those that it decompressed or fetched."""
_VIEW_BYTES = 2**10  # about what a column of a mapped batch takes: it is a view of the file


class ArrowRows:
    """The rows of all record batches.

    Number columns of mapped files are read in place, if there are not too many files. For other columns a batch is read
    when one of its rows is asked for, and the last few batches are kept.

    Args:
        format: the arguments of `parse_arrow`, with names and types fixed.
        rows: how many each batch has.
        handles: gives the handles of batches by their numbers.
    """

    def __init__(self, format: ArrowIpc, rows: Sequence[int], handles: Callable[[range], list[RecordBatch]]) -> None:
        fixed = format.fixed_schema
        assert fixed is not None
        self._handles = handles
        self._lock = threading.Lock()
        self._files = arrow_file_cache(format)
        self._kept: OrderedDict[int, tuple[ArrowFile, pa.RecordBatch, int]] = OrderedDict()
        self._bytes = 0
        windows = self._windows(fixed, len(rows))
        self._other_columns = [name for name in fixed.file_types if name not in windows]
        self._chunks = ChunkedTable(pa.schema(list(fixed.file_types.items())), rows, windows, self._read_rows)

    def rows(self, indices: Indices) -> Rows:
        """The rows at `indices`."""
        return self._chunks.rows(indices)

    def _windows(self, fixed: FixedSchema, count: int) -> dict[str, ColumnWindow]:
        """The columns that can be read in place."""
        numbers = [n for n, k in fixed.file_types.items() if pa.types.is_integer(k) or pa.types.is_floating(k)]
        parts: list[pa.RecordBatch] = []
        handles = self._handles(range(count)) if numbers else []
        if any(handle.compressed or local_path(handle.file) is None for handle in handles):
            return {}
        if len({handle.file.path for handle in handles}) > room_for_mappings():  # all would stay mapped
            return {}
        for handle in handles:
            file = self._files.file(handle)
            parts.append(file.read_batch(handle.number, handle.rows, False, numbers))
        windows: dict[str, ColumnWindow] = {}
        for name in numbers:
            chunks = [part.column(name) for part in parts if name in part.schema.names]
            alike = len(chunks) == len(parts) and all(chunk.type == fixed.file_types[name] for chunk in chunks)
            column = column_window(chunks) if alike else None
            if column is not None:
                windows[name] = column
        return windows

    def _read_rows(self, k: int, places: Indices) -> pa.RecordBatch:
        """Rows of a batch, without the columns that are read in place."""
        with self._lock:
            file, batch = self._batch(k)
        return file.with_fixed_types(take_rows(batch, places), self._other_columns, len(places))

    def _batch(self, k: int) -> tuple[ArrowFile, pa.RecordBatch]:
        if k in self._kept:
            self._kept.move_to_end(k)
            return self._kept[k][:2]
        (handle,) = self._handles(range(k, k + 1))
        file = self._files.file(handle)
        batch = file.read_batch(handle.number, handle.rows, handle.compressed, self._other_columns)
        is_view = file.mapped and not handle.compressed
        size = _VIEW_BYTES * len(self._other_columns) if is_view else batch.nbytes
        while self._kept and (self._bytes + size > MAX_KEPT_BYTES or room_for_mappings() < 0):
            self._bytes -= self._kept.popitem(last=False)[1][2]
        self._kept[k] = file, batch, size
        self._bytes += size
        return file, batch
