"""Arrow data in chunks: any rows of it, without a copy of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...core.gather import gather
from ...core.rows import Array, ArrowArray, Column, Indices, Rows
from .takeable import takeable

Positions = npt.NDArray[np.int64]


class Chunks:
    """The rows of all chunks, by position.

    Number columns without nulls are read through one NumPy window over the memory of all their chunks, so rows from a
    thousand chunks cost one gather; other columns are taken chunk by chunk, or row by row where rows lie far apart.

    Args:
        schema: names and types of all columns.
        lengths: rows of each chunk, at least one.
        windows: the columns that are read in place.
        others: gives rows of one chunk, of the other columns.
    """

    def __init__(
        self,
        schema: pa.Schema,
        lengths: Sequence[int],
        windows: Mapping[str, Window],
        others: Callable[[int, Indices], pa.RecordBatch],
    ) -> None:
        self.schema = schema
        self.length = sum(lengths)
        self._bounds: Positions = np.cumsum([0, *lengths], dtype=np.int64)
        self._windows = windows
        self._others = others
        self._rest = any(name not in windows for name in schema.names)
        # One chunk of numbers is as good as arrays: rows of it need not be gathered before somebody asks.
        self._whole = {n: w.part(0, 0, self.length) for n, w in windows.items()} if len(lengths) == 1 else {}

    @staticmethod
    def of(table: pa.Table) -> Chunks:
        """The rows of a table."""
        table = takeable(table)
        batches = [batch for batch in table.to_batches() if batch.num_rows]
        windows: dict[str, Window] = {}
        for place, name in enumerate(table.schema.names):
            found = window([batch.column(place) for batch in batches])
            if found is not None:
                windows[name] = found
        others = [name for name in table.schema.names if name not in windows]
        rest = [batch.select(others) for batch in batches]
        return Chunks(
            table.schema, [batch.num_rows for batch in batches], windows, lambda k, places: chosen(rest[k], places)
        )

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
        if self._whole and not self._rest:
            return Rows.chosen(self._whole, indices)
        return self._scattered(indices)

    def _part(self, k: int, places: Indices) -> Rows:
        assert isinstance(places, range)
        others = Rows.from_arrow(self._others(k, places)).columns if self._rest else {}
        numbers = {name: window.part(k, places.start, places.stop) for name, window in self._windows.items()}
        return self._joined(numbers, others, len(places))

    def _scattered(self, indices: Positions) -> Rows:
        owners = np.searchsorted(self._bounds, indices, "right") - 1
        places = indices - self._bounds[owners]
        numbers = {name: window.at(owners, places) for name, window in self._windows.items()}
        return self._joined(numbers, self._taken(indices, owners, places) if self._rest else {}, len(indices))

    def _taken(self, indices: Positions, owners: Positions, places: Positions) -> dict[str, Column]:
        # A `take` costs as much as slicing some eight rows out, whatever it takes.
        if len(indices) >= 8 * len(np.unique(owners)):
            rows = gather(indices, self._bounds, lambda k, places: Rows.from_arrow(self._others(k, places)))
            assert isinstance(rows, Rows)
            return dict(rows.columns)
        single = [self._others(k, range(i, i + 1)) for k, i in zip(owners.tolist(), places.tolist(), strict=True)]
        table = pa.Table.from_batches(single).combine_chunks()
        return {name: cast("Column", table.column(name).chunk(0)) for name in table.schema.names}

    def _joined(self, numbers: dict[str, Array], others: Mapping[str, Column], length: int) -> Rows:
        columns: dict[str, Column] = {**numbers, **others}
        return Rows({name: columns[name] for name in self.schema.names}, length)


def chosen(batch: pa.RecordBatch, places: Indices) -> pa.RecordBatch:
    """Rows of a batch; without a copy where they are neighbours."""
    if isinstance(places, range) and places.step == 1:
        return batch.slice(places.start, len(places))
    return batch.take(np.asarray(places, np.int64))


class _Memory:
    """Memory that NumPy reads in place: from the first chunk of a column to the end of the last."""

    def __init__(self, address: int, length: int, dtype: np.dtype[np.generic], owner: object) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (length,), "typestr": dtype.str, "version": 3}
        self.owner = owner


class Window:
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


def window(chunks: Sequence[ArrowArray]) -> Window | None:
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
    return Window(np.asarray(memory), shifts)
