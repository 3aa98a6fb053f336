"""Rows of Arrow data in chunks, without a copy of the whole. This imports pyarrow, so import it late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array
from ..core.lazy import pa, pc
from ..core.rows import Array, ArrowArray, Column, Indices, Rows, are_arrays, gather, index_array
from .columns import to_column, with_fields

Positions = npt.NDArray[np.int64]


class ChunkedTable:
    """The rows of all chunks, by position.

    Columns of numbers, text and bytes without nulls are read through one window over the memory of all their chunks, so
    rows from a thousand chunks cost one gather. Others are taken chunk by chunk, by `take_others`, or row by row if the
    rows are far apart.
    """

    def __init__(
        self,
        schema: pa.Schema,
        lengths: Sequence[int],
        windows: Mapping[str, ColumnWindow | TextWindow],
        take_others: Callable[[int, Indices], pa.RecordBatch],
    ) -> None:
        self.schema = schema
        self.length = sum(lengths)
        self._bounds: Positions = np.cumsum([0, *lengths], dtype=np.int64)
        self._windows = windows
        self._take_others = take_others
        self._has_others = any(name not in windows for name in schema.names)
        # A single chunk is as good as arrays: its rows are gathered only when their columns are asked for.
        self._arrays = {n: w.slice(0, 0, self.length) for n, w in windows.items()} if len(lengths) == 1 else {}

    @staticmethod
    def from_table(table: pa.Table) -> ChunkedTable:
        """The rows of a table."""
        table = with_takeable_types(table)
        batches = [batch for batch in table.to_batches() if batch.num_rows]
        windows: dict[str, ColumnWindow | TextWindow] = {}
        for place, name in enumerate(table.schema.names):
            chunks = [batch.column(place) for batch in batches]
            window = column_window(chunks) or text_window(chunks)
            if window is not None:
                windows[name] = window
        names = [name for name in table.schema.names if name not in windows]
        others = [batch.select(names) for batch in batches]
        lengths = [batch.num_rows for batch in batches]
        return ChunkedTable(table.schema, lengths, windows, lambda k, places: take_rows(others[k], places))

    def rows(self, indices: Indices) -> Rows:
        """The rows at `indices`."""
        if not len(indices):
            numbers: dict[str, Column] = {name: window.slice(0, 0, 0) for name, window in self._windows.items()}
            # `pa.array([], type)` refuses unions, and tensors whose axes are permuted.
            others = {field.name: pa.nulls(0, field.type) for field in self.schema if field.name not in numbers}
            return self._join(numbers, others, 0)
        if isinstance(indices, range):
            if indices.step == 1:
                rows = gather(indices, self._bounds, self._slice)
                assert isinstance(rows, Rows)
                return rows
            indices = index_array(indices)
        if self._arrays and not self._has_others:
            return Rows.selected(self._arrays, indices)
        return self._scattered(indices)

    def _slice(self, k: int, places: Indices) -> Rows:
        """Adjacent rows of one chunk."""
        assert isinstance(places, range)
        others = Rows.from_arrow(self._take_others(k, places)).columns if self._has_others else {}
        numbers: dict[str, Column] = {
            name: window.slice(k, places.start, places.stop) for name, window in self._windows.items()
        }
        return self._join(numbers, others, len(places))

    def _scattered(self, indices: Positions) -> Rows:
        """Rows of any chunks."""
        owners = np.searchsorted(self._bounds, indices, "right") - 1
        places = indices - self._bounds[owners]
        # The others first: to read a batch of a mapped file looks whether the file has been cut.
        others = self._scattered_others(indices, owners, places) if self._has_others else {}
        numbers: dict[str, Column] = {name: window.take(owners, places) for name, window in self._windows.items()}
        return self._join(numbers, others, len(indices))

    def _scattered_others(self, indices: Positions, owners: Positions, places: Positions) -> dict[str, Column]:
        # A `take` costs as much as about eight slices of one row, however few rows it takes.
        if len(indices) >= 8 * len(np.unique(owners)):
            rows = gather(indices, self._bounds, lambda k, places: Rows.from_arrow(self._take_others(k, places)))
            assert isinstance(rows, Rows)
            return dict(rows.columns)
        batches = [self._take_others(k, range(i, i + 1)) for k, i in zip(owners.tolist(), places.tolist(), strict=True)]
        table = pa.Table.from_batches(batches).combine_chunks()
        return {name: cast("Column", table.column(name).chunk(0)) for name in table.schema.names}

    def _join(self, numbers: dict[str, Column], others: Mapping[str, Column], length: int) -> Rows:
        columns: dict[str, Column] = {**numbers, **others}
        return Rows({name: columns[name] for name in self.schema.names}, length)


def take_rows(batch: pa.RecordBatch, places: Indices) -> pa.RecordBatch:
    """Rows of a batch; adjacent ones without a copy."""
    if isinstance(places, range) and places.step == 1:
        return batch.slice(places.start, len(places))
    return batch.take(arrow_array(index_array(places)))


# pyarrow's stubs do not say which attributes belong to which type, hence `Any`.
def with_takeable_types(table: pa.Table) -> pa.Table:
    """The table, with copies of the columns whose rows Arrow cannot take."""
    for place, field in enumerate(table.schema):
        kind = _takeable_type(field.type)
        if kind != field.type:
            chunks = [_convert(chunk, kind) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(cast("Any", chunks), kind))
    return table


def _takeable_type(kind: Any) -> Any:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind):
        return _takeable_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _takeable_type(kind.value_type), kind.ordered)
    return with_fields(kind, lambda field: field.with_type(_takeable_type(field.type)))


def _convert(chunk: Any, kind: Any) -> Any:
    if isinstance(chunk, pa.RunEndEncodedArray):
        return pc.call_function("run_end_decode", [chunk]).cast(kind)
    if isinstance(chunk, pa.DictionaryArray):
        values = chunk.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(chunk.indices, values, ordered=kind.ordered)
    return chunk.cast(kind)


class _ChunkMemory:
    """Memory that NumPy reads in place: from the first chunk of a column to the end of the last."""

    def __init__(self, address: int, length: int, dtype: np.dtype[np.generic], owner: object) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (length,), "typestr": dtype.str, "version": 3}
        self.owner = owner


class ColumnWindow:
    """One array over the memory of all chunks of a column; the memory between them is never read.

    NumPy computes an address from an index and reads there. So one array that spans from the lowest to the highest
    address serves all chunks, each with its own shift. Arrays made from it keep the chunks alive.
    """

    def __init__(self, array: Array, shifts: Positions) -> None:
        self._array = array
        self._shifts = shifts

    def slice(self, k: int, start: int, stop: int) -> Array:
        """Adjacent rows of chunk `k`, without a copy."""
        shift = int(self._shifts[k])
        return self._array[shift + start : shift + stop]

    def take(self, owners: Positions, places: Positions) -> Array:
        """For each row the value at its place in the chunk that owns it."""
        values = self._array.take(self._shifts[owners] + places)
        values.flags.writeable = False
        return values

    def pieces(self, owners: Positions, starts: Positions, stops: Positions) -> list[memoryview]:
        """For each pair of places in the chunk that owns it, the memory between them, without a copy."""
        view, shifts = memoryview(cast("Any", self._array)), self._shifts[owners]
        return [view[a:b] for a, b in zip((shifts + starts).tolist(), (shifts + stops).tolist(), strict=True)]


def column_window(chunks: Sequence[ArrowArray]) -> ColumnWindow | None:
    """The window over `chunks`, none of them empty; None if they have nulls or are no numbers."""
    views = [to_column(chunk) for chunk in chunks]
    if not views or not are_arrays(views):
        return None
    return _window([(view.__array_interface__["data"][0], view.nbytes) for view in views], views[0].dtype, chunks)


def _window(memory: Sequence[tuple[int, int]], dtype: np.dtype[Any], owner: object) -> ColumnWindow | None:
    """The window over pieces of memory, each an address and its bytes; None if they are not aligned alike."""
    base = min(address for address, _ in memory)
    if any((address - base) % dtype.itemsize for address, _ in memory):
        return None
    end = max(address + size for address, size in memory)
    whole = _ChunkMemory(base, (end - base) // dtype.itemsize, dtype, owner)
    shifts = np.array([(address - base) // dtype.itemsize for address, _ in memory], np.int64)
    return ColumnWindow(np.asarray(whole), shifts)


class TextWindow:
    """Windows over the offsets and the bytes of all chunks of a column of text or bytes."""

    def __init__(self, chunks: Sequence[ArrowArray], offsets: ColumnWindow, data: ColumnWindow) -> None:
        self._chunks = chunks
        self._offsets = offsets
        self._data = data

    def slice(self, k: int, start: int, stop: int) -> ArrowArray:
        """Adjacent rows of chunk `k`, without a copy."""
        return self._chunks[k].slice(start, stop - start)

    def take(self, owners: Positions, places: Positions) -> ArrowArray:
        """For each row the value at its place in the chunk that owns it."""
        starts: Positions = self._offsets.take(owners, places).astype(np.int64)
        stops: Positions = self._offsets.take(owners, places + 1).astype(np.int64)
        ends = np.cumsum(stops - starts)
        kind: Any = self._chunks[0].type
        types: Any = pa.types
        if large := types.is_large_string(kind) or types.is_large_binary(kind) or int(ends[-1:].sum()) >= 2**31:
            kind = pa.large_binary() if types.is_binary(kind) or types.is_large_binary(kind) else pa.large_string()
        width = np.int64 if large else np.int32
        offsets = np.concatenate([[0], ends]).astype(width)
        data = b"".join(self._data.pieces(owners, starts, stops))
        return pa.Array.from_buffers(kind, len(ends), [None, pa.py_buffer(cast("Any", offsets)), pa.py_buffer(data)])


def text_window(chunks: Sequence[ArrowArray]) -> TextWindow | None:
    """The window over `chunks`, none of them empty; None if they have nulls or are neither text nor bytes."""
    kind: Any = chunks[0].type if chunks else pa.null()
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (large or pa.types.is_string(kind) or pa.types.is_binary(kind)) or any(c.null_count for c in chunks):
        return None
    width = np.dtype(np.int64 if large else np.int32)
    offsets: list[tuple[int, int]] = []
    data: list[tuple[int, int]] = []
    for chunk in chunks:
        _, ends, values = chunk.buffers()
        if ends is None or values is None:
            return None
        offsets.append((ends.address + chunk.offset * width.itemsize, (len(chunk) + 1) * width.itemsize))
        data.append((values.address, values.size))
    window, content = _window(offsets, width, chunks), _window(data, np.dtype("u1"), chunks)
    return None if window is None or content is None else TextWindow(chunks, window, content)
