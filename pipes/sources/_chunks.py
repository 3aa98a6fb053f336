"""An Arrow table in chunks as a source's memory: any rows of it, without a copy of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..ops._gather import gather
from ..rows import Array, ArrowArray, Column, Indices, Rows, take

Positions = npt.NDArray[np.int64]


class Chunks:
    """The rows of a table, by position.

    Number columns without nulls are read through one NumPy window over the memory of all their chunks, so rows from a
    thousand chunks cost one gather; other columns are taken chunk by chunk, or row by row where rows lie far apart.
    """

    def __init__(self, table: pa.Table) -> None:
        table = _takeable(table)
        self.schema = table.schema
        self.length = table.num_rows
        batches = [batch for batch in table.to_batches() if batch.num_rows]
        self._bounds: Positions = np.cumsum([0, *(batch.num_rows for batch in batches)], dtype=np.int64)
        self._windows: dict[str, _Window] = {}
        for place, name in enumerate(table.schema.names):
            window = _window([batch.column(place) for batch in batches])
            if window is not None:
                self._windows[name] = window
        others = [name for name in table.schema.names if name not in self._windows]
        self._others = [batch.select(others) for batch in batches] if others else []
        # One chunk of numbers is as good as arrays: rows of it need not be gathered before somebody asks.
        self._whole = {n: w.part(0, 0, self.length) for n, w in self._windows.items()} if len(batches) == 1 else {}

    def rows(self, indices: Indices) -> Rows:
        """The rows at `indices`."""
        if not len(indices):
            numbers = {name: window.part(0, 0, 0) for name, window in self._windows.items()}
            table = self.schema.empty_table()
            others = {n: table.column(n).combine_chunks() for n in self.schema.names if n not in numbers}
            return self._joined(numbers, others, 0)
        if isinstance(indices, range):
            if indices.step == 1:
                made = gather(indices, self._bounds, self._part)
                assert isinstance(made, Rows)
                return made
            indices = np.asarray(indices, np.int64)
        if self._whole and not self._others:
            return Rows.chosen(self._whole, indices)
        return self._scattered(indices)

    def _part(self, k: int, places: Indices) -> Rows:
        assert isinstance(places, range)
        others = Rows.from_arrow(self._others[k].slice(places.start, len(places))).columns if self._others else {}
        numbers = {name: window.part(k, places.start, places.stop) for name, window in self._windows.items()}
        return self._joined(numbers, others, len(places))

    def _scattered(self, indices: Positions) -> Rows:
        owners = np.searchsorted(self._bounds, indices, "right") - 1
        places = indices - self._bounds[owners]
        numbers = {name: window.at(owners, places) for name, window in self._windows.items()}
        return self._joined(numbers, self._taken(indices, owners, places) if self._others else {}, len(indices))

    def _taken(self, indices: Positions, owners: Positions, places: Positions) -> dict[str, Column]:
        parts = self._others
        # A `take` costs as much as slicing some eight rows out, whatever it takes.
        if len(indices) >= 8 * len(np.unique(owners)):
            rows = gather(indices, self._bounds, lambda k, chosen: take(Rows.from_arrow(parts[k]), chosen))
            assert isinstance(rows, Rows)
            return dict(rows.columns)
        single = [parts[k].slice(i, 1) for k, i in zip(owners.tolist(), places.tolist(), strict=True)]
        table = pa.Table.from_batches(single).combine_chunks()
        return {name: cast("Column", table.column(name).chunk(0)) for name in table.schema.names}

    def _joined(self, numbers: dict[str, Array], others: Mapping[str, Column], length: int) -> Rows:
        columns: dict[str, Column] = {**numbers, **others}
        return Rows({name: columns[name] for name in self.schema.names}, length)


class _Memory:
    """Memory that NumPy reads in place: from the first chunk of a column to the end of the last."""

    def __init__(self, address: int, length: int, dtype: np.dtype[np.generic], owner: object) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (length,), "typestr": dtype.str, "version": 3}
        self.owner = owner


class _Window:
    """One array over the memory of all chunks; what lies between them is never read.

    NumPy computes an address from an index and reads there. So an array that begins at the chunk with the lowest
    address and reaches to the end of the highest serves all chunks, each at a shift of its own. Every array made from
    it keeps the chunks alive.
    """

    def __init__(self, array: Array, shifts: Positions) -> None:
        self._array = array
        self._shifts = shifts

    def part(self, k: int, start: int, stop: int) -> Array:
        shift = int(self._shifts[k])
        return self._array[shift + start : shift + stop]

    def at(self, owners: Positions, places: Positions) -> Array:
        taken = self._array.take(self._shifts[owners] + places)
        taken.flags.writeable = False
        return taken


def _window(chunks: Sequence[ArrowArray]) -> _Window | None:
    """The window over `chunks`; None where they hold nulls, or something else than numbers."""
    if not chunks or any(chunk.null_count for chunk in chunks):
        return None
    kind = chunks[0].type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    views = [chunk.to_numpy(zero_copy_only=True) for chunk in chunks]
    dtype = views[0].dtype
    addresses = [view.__array_interface__["data"][0] for view in views]
    base = min(addresses)
    if any((address - base) % dtype.itemsize for address in addresses):
        return None
    end = max(address + view.nbytes for address, view in zip(addresses, views, strict=True))
    memory = _Memory(base, (end - base) // dtype.itemsize, dtype, chunks)
    shifts = np.array([(address - base) // dtype.itemsize for address in addresses], np.int64)
    return _Window(np.asarray(memory), shifts)


def _takeable(table: pa.Table) -> pa.Table:
    """The table with those columns copied whose rows Arrow cannot take: views of text, and run-end encoded ones."""
    for place, field in enumerate(table.schema):
        kind = _plain(field.type)
        if kind != field.type:
            chunks = [_copied(chunk, kind) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(cast("Any", chunks), kind))
    return table


# pyarrow's stubs do not say what belongs to which type, hence `Any`.


def _plain(kind: Any) -> Any:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind):
        return _plain(kind.value_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _copied(chunk: Any, kind: Any) -> Any:
    if isinstance(chunk, pa.RunEndEncodedArray):
        return pc.call_function("run_end_decode", [chunk]).cast(kind)
    if isinstance(chunk, pa.DictionaryArray):
        words = chunk.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(chunk.indices, words, ordered=kind.ordered)
    return chunk.cast(kind)
